import { NightshiftError } from '@nightshift/agent-core';
import { liveness, type LogStream } from '@nightshift/services';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Serves `GET /livez` until the process ends, and returns its URL; does nothing when `port` is null.
 * The answer depends only on the event loop: a database outage is no reason to replace a worker.
 * Throws: `bad_configuration` when the address cannot be bound.
 */
export async function answerLivez(host: string, port: number | null, log: LogStream): Promise<string | null> {
  if (port === null) return null;
  const server = createServer((request, response) => {
    request.resume();
    const isKnown = request.url === '/livez';
    response.writeHead(isKnown ? 200 : 404, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify(isKnown ? liveness(log.status()) : { detail: 'Only /livez is served here.' }),
    );
  });
  server.listen(port, host);
  await once(server, 'listening').catch((error: unknown) => {
    throw new NightshiftError(
      'bad_configuration',
      `The worker cannot listen at HEALTH_HOST ${host}, HEALTH_PORT ${port}: ${(error as Error).message}.`,
    );
  });
  const address = server.address() as AddressInfo;
  const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${shown}:${address.port}/livez`;
}
