import { once } from 'node:events';
import { createServer } from 'node:net';

/** Finds a free TCP port of 127.0.0.1. Another process may take it first, so callers must be ready to retry. */
export async function findFreePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('No free port on 127.0.0.1.');
  return address.port;
}
