import type { FastifyRequest } from 'fastify';
import { KEY_MAX_AGE_MINUTES, keyOf } from '../../idempotency/key.ts';

/** Minutes within which a client's automatic retry is recognised. */
const RETRY_MAX_AGE_MINUTES = 10;

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
  const key = keyOf(request);
  if (key !== null) return { key, request_sha256, replay_minutes: KEY_MAX_AGE_MINUTES, by_retry };
  return {
    key: `body:${request_sha256}`,
    request_sha256,
    replay_minutes: by_retry ? RETRY_MAX_AGE_MINUTES : null,
    by_retry,
  };
}
