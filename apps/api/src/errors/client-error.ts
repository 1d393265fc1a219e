import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { NightshiftError } from '@nightshift/agent-core';
import { PROBLEM_TYPE, toAnswer, toProblem } from './problem.ts';

/** Largest URL and headers together. Unit: bytes. A list in a query may name a thousand ids. */
export const HEADER_BYTES_MAX = 128 * 1024;

/** Answers by Node's codes. */
const KNOWN: Readonly<Record<string, readonly [status: number, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time.'],
  HPE_HEADER_OVERFLOW: [
    431,
    `The URL and the headers of the request are larger than ${HEADER_BYTES_MAX} bytes together: send fewer values at ` +
      'once.',
  ],
};

/** Answers data that is not an HTTP request with the usual error body, and closes the connection. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (socket.writable && error.code !== 'ECONNRESET') {
    const [status, message] = KNOWN[error.code ?? ''] ?? [400, 'The data is not HTTP.'];
    const id = randomUUID();
    const answer = { ...toAnswer(new NightshiftError('invalid_argument', message)), status };
    const body = JSON.stringify(toProblem(answer, id));
    socket.write(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: ${PROBLEM_TYPE}\r\n` +
        `Content-Length: ${Buffer.byteLength(body)}\r\nX-Request-Id: ${id}\r\nConnection: close\r\n\r\n${body}`,
    );
  }
  socket.destroy(error);
}
