import { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { App } from './context.ts';
import { answerClientError } from './errors/client-error.ts';

const timers = new WeakMap<FastifyRequest, NodeJS.Timeout>();

/**
 * Limits the time for the body of a request. Node's own limit has no exceptions, and uploads of lines are one: see
 * {@link allowBodyTime}. Unit: milliseconds.
 */
export function limitBodyTime(app: App, ms: number): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { raw, headers } = request;
    // An injected request has a body at once, and no connection.
    const isInjected = !(raw.socket instanceof Socket);
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
    if (hasBody && !isInjected) {
      const timeout = Object.assign(new Error('The body is late.'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
      const timer = setTimeout(() => {
        if (!raw.complete) answerClientError(timeout, raw.socket);
      }, ms).unref();
      timers.set(request, timer);
      raw.once('close', () => clearTimeout(timer));
    }
    done();
  });
}

/** Lifts the limit for an upload with a valid key, which ends when it brings no more bytes. */
export function allowBodyTime(request: FastifyRequest): void {
  clearTimeout(timers.get(request));
}
