import { createHash, timingSafeEqual } from 'node:crypto';
import { NightshiftError } from '@nightshift/agent-core';
import type { onRequestHookHandler } from 'fastify';

/**
 * Refuses a request that does not carry the key as `Authorization: Bearer <key>`. Compares digests in constant time, so the
 * answer's delay says nothing of the key, nor of its length.
 */
export function requireKey(apiKey: string): onRequestHookHandler {
  const expected = digest(apiKey);
  return (request, _reply, done) => {
    const [, given] = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '') ?? [];
    if (given !== undefined && timingSafeEqual(digest(given), expected)) {
      done();
      return;
    }
    done(
      new NightshiftError(
        'unauthorized',
        given === undefined ? 'There is no API key.' : 'The API key is wrong.',
      ),
    );
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
