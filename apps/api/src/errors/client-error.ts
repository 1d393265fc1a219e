import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { NightshiftError } from '@nightshift/agent-core';
import { toAnswer, toProblem } from './problem.ts';

/** Bytes of a URL and headers together at most: a list in a query may name a thousand ids. */
export const HEADER_BYTES_MAX = 128 * 1024;

/** By Node's codes. */
const KNOWN: Readonly<Record<string, readonly [status: number, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time.'],
  HPE_HEADER_OVERFLOW: [
    431,
    `The URL and the headers of the request are larger than ${HEADER_BYTES_MAX} bytes together: name fewer values at once.`,
  ],
};

/** Answers what is no request, before there is one to answer: with the body of every error, and the connection is closed. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (socket.writable && error.code !== 'ECONNRESET') {
    const [status, message] = KNOWN[error.code ?? ''] ?? [400, 'What was sent is not HTTP.'];
    const id = randomUUID();
    const answer = { ...toAnswer(new NightshiftError('invalid_argument', message)), status };
    const body = JSON.stringify(toProblem(answer, id));
    socket.write(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json; charset=utf-8\r\n` +
        `Content-Length: ${Buffer.byteLength(body)}\r\nX-Request-Id: ${id}\r\nConnection: close\r\n\r\n${body}`,
    );
  }
  socket.destroy(error);
}
