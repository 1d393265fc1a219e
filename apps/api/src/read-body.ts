import type { Readable } from 'node:stream';
import { errorCodes, type FastifyRequest } from 'fastify';

/** Size of a part, if the body is larger or of unknown length. Unit: bytes. */
const PART_BYTES = 262_144;

/** Parts of a body in order. Each has its own memory, so that it can move to another thread. */
export type BodyParts = readonly Uint8Array<ArrayBuffer>[];

/**
 * Reads a body into parts as it arrives, because joining a large body would hold the thread. Passes Fastify's errors for a body
 * that is too large or has a wrong length.
 */
export function readBody(
  request: FastifyRequest,
  payload: Readable,
  done: (error: Error | null, parts: BodyParts) => void,
): void {
  const limit = request.routeOptions.bodyLimit;
  const length = Number(request.headers['content-length']);
  if (length > limit) {
    done(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE(), []);
    return;
  }
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let part = new Uint8Array(0);
  let free = 0;
  let received = 0;
  const settle = (error: Error | null): void => {
    payload.off('data', onData).off('end', onEnd).off('error', onError);
    if (free > 0) parts[parts.length - 1] = part.slice(0, part.length - free);
    done(error, parts);
  };
  const onData = (chunk: Buffer): void => {
    if (received + chunk.length > limit) {
      settle(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
      return;
    }
    for (let from = 0; from < chunk.length;) {
      if (free === 0) {
        free = length > received ? Math.min(PART_BYTES, length - received) : PART_BYTES;
        parts.push((part = new Uint8Array(free)));
      }
      const some = chunk.subarray(from, from + free);
      part.set(some, part.length - free);
      free -= some.length;
      from += some.length;
      received += some.length;
    }
  };
  const onEnd = (): void =>
    settle(
      Number.isNaN(length) || received === length
        ? null
        : new errorCodes.FST_ERR_CTP_INVALID_CONTENT_LENGTH(),
    );
  const onError = (error: Error): void => settle(Object.assign(error, { statusCode: 400 }));
  payload.on('data', onData).on('end', onEnd).on('error', onError).resume();
}
