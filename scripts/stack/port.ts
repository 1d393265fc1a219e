import { createServer } from 'node:net';
import { findFreePort } from '../../libs/services/src/index.ts';
import { given, wholeNumber } from '../command-line.ts';

/** Port of the API without PORT. */
export const PORT_DEFAULT = 8283;

/** Returns the port of PORT, which is then fixed, or the default. Throws when PORT is not a port. */
export function wantedPort(): { readonly port: number; readonly portIsFixed: boolean } {
  const text = given('PORT');
  return {
    port: text === undefined ? PORT_DEFAULT : wholeNumber('PORT', text, 0, 65_535),
    portIsFixed: text !== undefined,
  };
}

/**
 * Returns the wanted port, or a free one when it is 0 or cannot be used. Throws when a fixed port cannot be
 * used.
 */
export async function freePort(wanted: number, isFixed: boolean, host = '127.0.0.1'): Promise<number> {
  if (wanted === 0) return findFreePort();
  const reason = await new Promise<string | null>((resolve) => {
    const probe = createServer()
      .once('error', ({ code }: NodeJS.ErrnoException) => {
        // The API reports other errors of the address better.
        resolve(REASONS[code ?? ''] ?? null);
      })
      .listen(wanted, host, () => {
        probe.close(() => {
          resolve(null);
        });
      });
  });
  if (reason === null) return wanted;
  if (isFixed) throw new Error(`PORT ${wanted} cannot be used: ${reason}. Choose another port; 0 takes any.`);
  return findFreePort();
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens on it',
  EACCES: 'this user may not listen on it, as is usual below 1024',
};
