import { createHash } from 'node:crypto';
import { NightshiftError } from '@nightshift/agent-core';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';

/** Minutes for which a key identifies a request. */
export const KEY_MAX_AGE_MINUTES = 24 * 60;

/** Documents the header; {@link keyOf} checks it. */
export const idempotencyHeaders = z.looseObject({
  'idempotency-key': z
    .string()
    .optional()
    .describe(
      '1 to 200 visible ASCII characters. For a day, the same key and body return what the first request made, with the ' +
        'header `Idempotent-Replayed: true`. Another request with the key is a 422.',
    ),
});

/** Reads the key of a request, as it is stored; null without one. Throws: `invalid_argument`. */
export function keyOf(request: FastifyRequest): string | null {
  const given = request.headers['idempotency-key'];
  if (given === undefined) return null;
  if (typeof given === 'string' && /^[\x21-\x7e]{1,200}$/.test(given)) return `key:${given}`;
  const message = 'must be 1 to 200 visible ASCII characters';
  throw new NightshiftError('invalid_argument', `Idempotency-Key ${message}.`, {
    fields: [{ path: 'idempotency-key', message }],
  });
}

/** Returns the hash that identifies the body of a request to its route. */
export function hashOf({ routeOptions, params, body, bodySha256 }: FastifyRequest): string {
  const content = bodySha256 === '' ? (body ?? null) : bodySha256;
  return createHash('sha256')
    .update(JSON.stringify([routeOptions.url, params, content]))
    .digest('hex');
}

/** The error of a key that another request has used. */
export function keyIsUsed(): NightshiftError {
  return new NightshiftError(
    'idempotency_mismatch',
    'This Idempotency-Key was already used with another body. Send a new key.',
  );
}
