import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import type { ProviderPort } from '../../src/provider/port.ts';

export const API_KEY = 'sk-ant-test-SECRET-0123456789';

export interface SeenRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  /** Grows while the body arrives. */
  body: string;
}

export type Answerer = (seen: SeenRequest, response: ServerResponse, request: IncomingMessage) => void;

export interface ScriptedServer {
  readonly url: string;
  readonly requests: SeenRequest[];
  /** A provider port for this server. */
  readonly provider: ProviderPort;
}

/** Starts an HTTP server on a free port with scripted answers, sent once the request's body has arrived. */
export async function scriptedServer(answer: Answerer, requestTimeoutMs = 5_000): Promise<ScriptedServer> {
  const requests: SeenRequest[] = [];
  const server = createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const seen: SeenRequest = { method, url, headers, body: '' };
    requests.push(seen);
    request.setEncoding('utf8');
    request.on('data', (piece: string) => (seen.body += piece));
    request.on('end', () => answer(seen, response, request));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, requests, provider: anthropicProvider({ apiKey: API_KEY, baseURL: url, requestTimeoutMs }) };
}

/** Builds a batch in the API's shape. */
export function wireBatch(given: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: 'msgbatch_01',
    type: 'message_batch',
    processing_status: 'in_progress',
    request_counts: { processing: 2, succeeded: 0, errored: 0, canceled: 0, expired: 0 },
    created_at: '2026-11-20T10:00:00.100435Z',
    expires_at: '2026-11-21T10:00:00.100435Z',
    ended_at: null,
    cancel_initiated_at: null,
    archived_at: null,
    results_url: null,
    ...given,
  };
}

export function errorBody(type: string, details?: Record<string, unknown>): Record<string, unknown> {
  const error = { type, message: `the ${type}`, ...(details !== undefined && { details }) };
  return { type: 'error', error, request_id: 'req_1' };
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}
