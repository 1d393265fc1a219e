import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { NightshiftError } from '@nightshift/agent-core';
import { readBrowserSession, type Database } from '@nightshift/db';
import type { FastifyRequest } from 'fastify';

const COOKIE = 'nightshift_session';
/** Lifetime of a browser's session. Unit: milliseconds. */
export const SESSION_MS = 7 * 86_400_000;
/** Lifetime of a sign-in link. Unit: milliseconds. */
export const LINK_MS = 600_000;

/** Makes the secret of a session or a link; its hash is stored. */
export function newSecret(): { readonly secret: string; readonly hash: Buffer } {
  const secret = randomBytes(32).toString('base64url');
  return { secret, hash: digest(secret) };
}

export function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Compares with the key in constant time, so that timing reveals neither the key nor its length. */
export function isKey(given: string, keyHash: Buffer): boolean {
  return timingSafeEqual(digest(given), keyHash);
}

/** Reads the hash of the session from the cookie; undefined without one. */
export function sessionHashOf(request: FastifyRequest): Buffer | undefined {
  for (const part of (request.headers.cookie ?? '').split(';')) {
    const [name, value] = part.trim().split('=');
    if (name === COOKIE && value !== undefined && value !== '') return digest(value);
  }
  return undefined;
}

/** Writes the cookie of a session; an empty secret removes it. Scripts cannot read it, and other sites do not send it. */
export function cookieOf(request: FastifyRequest, secret: string): string {
  const isSecure = request.headers.origin?.startsWith('https:') === true;
  const age = secret === '' ? 0 : SESSION_MS / 1_000;
  return `${COOKIE}=${secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${age}${isSecure ? '; Secure' : ''}`;
}

/**
 * Reads the end of a request's session; null without a valid one.
 * Throws: `unauthorized` for a changing request of another site.
 */
export async function readSession(
  db: Database,
  request: FastifyRequest,
  keyHash: Buffer,
): Promise<Date | null> {
  const hash = sessionHashOf(request);
  if (hash === undefined) return null;
  refuseOtherSites(request);
  return readBrowserSession(db, hash, keyHash);
}

/** Throws `unauthorized` for a changing request of a browser that comes from another site, or does not say from where. */
export function refuseOtherSites({ method, headers }: FastifyRequest): void {
  if (method === 'GET' || method === 'HEAD') return;
  const { origin = '' } = headers;
  if (URL.canParse(origin) && new URL(origin).host === headers.host) return;
  throw new NightshiftError(
    'unauthorized',
    'The request does not come from a page of this service, so its session does not count. Use the dashboard, or an API key.',
  );
}
