import { NightshiftError } from '@nightshift/agent-core';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';

/** Minutes for which a key identifies a request. */
const KEY_MAX_AGE_MINUTES = 24 * 60;
/** Minutes within which a client's automatic retry is recognised. */
const RETRY_MAX_AGE_MINUTES = 10;

/** Documents the header; {@link idempotencyOf} checks it. */
export const idempotencyHeaders = z.looseObject({
  'idempotency-key': z
    .string()
    .optional()
    .describe('1 to 200 visible ASCII characters. For a day, the same key and body return the same batch.'),
});

/** Identifies repeated creates. */
export interface Idempotency {
  /** Stored with the batch. */
  readonly key: string;
  readonly request_sha256: string;
  /** Largest age of a batch that is answered again under this key. Null: only a batch made by its own retry. */
  readonly replay_minutes: number | null;
  /** True if the request says that it is a retry. */
  readonly by_retry: boolean;
}

/**
 * Reads how a create is identified, by its key and the hash of its body. An `Idempotency-Key` identifies it for a day.
 * Without a key the body's hash identifies a declared retry (`X-Stainless-Retry-Count` above 0) for ten minutes: Letta's client
 * resends a create after a timeout and has no key. A create that its own retry has overtaken gets the retry's batch. Two equal
 * creates without retry stay two batches.
 */
export function idempotencyOf(request: FastifyRequest, request_sha256 = request.bodySha256): Idempotency {
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
