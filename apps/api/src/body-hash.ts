import { createHash } from 'node:crypto';
import { pipeline, Transform } from 'node:stream';
import type { FastifyRequest, preParsingHookHandler } from 'fastify';
import type { App } from './context.ts';
import { passOverRest } from './pass-over-rest.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** SHA-256 of the body as it came, in hex; only on routes with {@link hashBody}. */
    bodySha256: string;
  }
}

/** Gives requests a place for their body's hash. */
export function declareBodyHash(app: App): void {
  app.decorateRequest('bodySha256', '');
}

/** Hashes the body while it arrives, so that a large one does not hold the process up afterwards. */
export const hashBody: preParsingHookHandler = (request: FastifyRequest, reply, payload, done) => {
  const hash = createHash('sha256');
  const tap = new Transform({
    transform(chunk: Buffer, _encoding, next) {
      hash.update(chunk);
      next(null, chunk);
    },
    flush(next) {
      request.bodySha256 = hash.digest('hex');
      next();
    },
  });
  // An aborted upload ends the tap too; the parser reports it.
  pipeline(payload, tap, () => undefined);
  passOverRest(payload, tap, reply.raw);
  done(null, tap);
};
