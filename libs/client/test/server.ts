import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { createNightshift, type Nightshift, type NightshiftOptions } from '../src/index.ts';

/** A request as a server received it. */
export interface Received {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Answers a request. `place` counts the requests from 0. */
export type Answerer = (request: Received, response: ServerResponse, place: number) => void;

/** Starts a server on a free port, and a client of it. Both end with the test. */
export async function serve(
  answer: Answerer,
  options: Partial<NightshiftOptions> = {},
): Promise<{ readonly url: string; readonly client: Nightshift; readonly received: Received[] }> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const parts: Buffer[] = [];
      try {
        for await (const part of request) parts.push(part as Buffer);
      } catch {
        // The client broke off.
        return;
      }
      const url = new URL(request.url ?? '', 'http://localhost');
      const { method = '', headers } = request;
      received.push({ method, url, headers, body: Buffer.concat(parts).toString() });
      answer(received.at(-1) as Received, response, received.length - 1);
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, client: createNightshift({ url, apiKey: 'ns_key', ...options }), received };
}

/** Answers with JSON. */
export function sendJson(
  response: ServerResponse,
  body: unknown,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

/** Answers with a problem. */
export function refuse(
  response: ServerResponse,
  status: number,
  code: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendJson(response, { status, code, detail: `The server says ${code}.` }, status, headers);
}
