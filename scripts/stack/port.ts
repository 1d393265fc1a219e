import { createServer } from 'node:net';
import { findFreePort } from '../../libs/services/src/index.ts';
import { given, wholeNumber } from '../command-line.ts';

/** Of the API, unless PORT names another. */
export const PORT_DEFAULT = 8283;

/** The port that PORT asks for, which is then insisted on, or the default one. Throws when PORT is no port. */
export function wantedPort(): { readonly port: number; readonly portIsFixed: boolean } {
  const text = given('PORT');
  return {
    port: text === undefined ? PORT_DEFAULT : wholeNumber('PORT', text, 0, 65_535),
    portIsFixed: text !== undefined,
  };
}

/** The wanted port, or any free one when it is 0, or cannot be had and is not insisted on; throws when it is. */
export async function freePort(wanted: number, isFixed: boolean, host = '127.0.0.1'): Promise<number> {
  if (wanted === 0) return findFreePort();
  const reason = await new Promise<string | null>((resolve) => {
    const probe = createServer()
      .once('error', ({ code }: NodeJS.ErrnoException) => {
        // What else is wrong with the address, the API says better.
        resolve(REASONS[code ?? ''] ?? null);
      })
      .listen(wanted, host, () => {
        probe.close(() => {
          resolve(null);
        });
      });
  });
  if (reason === null) return wanted;
  if (isFixed) throw new Error(`PORT ${wanted} cannot be had: ${reason}. Choose another one; 0 takes any.`);
  return findFreePort();
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'something else listens there',
  EACCES: 'this user may not listen there, as is usual below 1024',
};
