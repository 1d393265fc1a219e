import { Socket } from 'node:net';
import type { App } from './context.ts';
import { answerClientError } from './errors/client-error.ts';
import { isLineUpload } from './uploads/line-upload.ts';

/**
 * Limits the time for the body of a request, except for uploads of lines, which end when they bring no more bytes. Node's own
 * limit has no exceptions. Unit: milliseconds.
 */
export function limitBodyTime(app: App, ms: number): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { raw, headers } = request;
    // An injected request has a body at once, and no connection.
    const isInjected = !(raw.socket instanceof Socket);
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
    if (hasBody && !isInjected && !isLineUpload(request)) {
      const timeout = Object.assign(new Error('The body is late.'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
      const timer = setTimeout(() => {
        if (!raw.complete) answerClientError(timeout, raw.socket);
      }, ms).unref();
      raw.once('close', () => clearTimeout(timer));
    }
    done();
  });
}
