import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { NightshiftError } from '@nightshift/agent-core';
import { toAnswer, toProblem } from './problem.ts';

/** By Node's codes. */
const KNOWN: Readonly<Record<string, readonly [status: number, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time.'],
  HPE_HEADER_OVERFLOW: [431, 'The headers of the request are too large.'],
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
