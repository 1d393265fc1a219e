import { NightshiftError } from '@nightshift/agent-core';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';

/** How long a key makes a repetition the same batch. */
const KEY_MAX_AGE_MINUTES = 24 * 60;
/** How long a client's own retry may come after what it repeats. */
const RETRY_MAX_AGE_MINUTES = 10;

/** For the document; what it must look like is judged by {@link idempotencyOf}. */
export const idempotencyHeaders = z.looseObject({
  'idempotency-key': z
    .string()
    .optional()
    .describe('1 to 200 visible ASCII characters: the same key and body answer the same batch for a day.'),
});

/** How a create is told from its repetition. */
export interface Idempotency {
  /** Recorded with the batch. */
  readonly key: string;
  readonly request_sha256: string;
  /** Age up to which a batch made under the key is answered instead of a new one; null: never, but for one of its own retry. */
  readonly replay_minutes: number | null;
  /** The request says that it is a retry. */
  readonly by_retry: boolean;
}

/**
 * A caller's `Idempotency-Key` names the request for a day. Without one the body's hash does, for ten minutes, but only to a
 * request that says it is a retry (`X-Stainless-Retry-Count` above 0): Letta's client sends a create that it has timed out on
 * again, and has no other way to say that it is the same. A create whose retry has overtaken it is answered with the retry's batch.
 * Two equal creates that are no retries stay two batches.
 */
export function idempotencyOf(request: FastifyRequest): Idempotency {
  const request_sha256 = request.bodySha256;
  const by_retry = Number(request.headers['x-stainless-retry-count'] ?? 0) > 0;
  const given = request.headers['idempotency-key'];
  if (given !== undefined) {
    if (typeof given !== 'string' || !/^[\x21-\x7e]{1,200}$/.test(given)) {
      const message = 'must be 1 to 200 visible ASCII characters';
      throw new NightshiftError('invalid_argument', `Idempotency-Key ${message}.`, {
        fields: [{ path: 'idempotency-key', message }],
      });
    }
    return { key: `key:${given}`, request_sha256, replay_minutes: KEY_MAX_AGE_MINUTES, by_retry };
  }
  return {
    key: `body:${request_sha256}`,
    request_sha256,
    replay_minutes: by_retry ? RETRY_MAX_AGE_MINUTES : null,
    by_retry,
  };
}
