import { createHash, timingSafeEqual } from 'node:crypto';
import { NightshiftError } from '@nightshift/agent-core';
import type { onRequestHookHandler } from 'fastify';

/**
 * Refuses requests without the header `Authorization: Bearer <key>`. Compares digests in constant time, so that timing reveals
 * neither the key nor its length.
 */
export function requireKey(apiKey: string): onRequestHookHandler {
  const expected = digest(apiKey);
  return (request, _reply, done) => {
    const header = request.headers.authorization ?? '';
    const [, given] = /^Bearer +(\S+) *$/i.exec(header) ?? [];
    if (given !== undefined && timingSafeEqual(digest(given), expected)) {
      done();
      return;
    }
    done(new NightshiftError('unauthorized', reason(header, given)));
  };
}

function reason(header: string, given: string | undefined): string {
  if (header === '') return 'The request has no API key.';
  return given === undefined
    ? 'The Authorization header is not of the form `Bearer <key>`.'
    : 'The API key is wrong.';
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
