import { NightshiftError } from '@nightshift/agent-core';
import type { Database } from '@nightshift/db';
import type { onRequestAsyncHookHandler } from 'fastify';
import { digest, isKey, readSession, sessionHashOf } from './session.ts';

/** Refuses requests without the header `Authorization: Bearer <key>`, and without the cookie of a session. */
export function requireKey(apiKey: string, db: Database): onRequestAsyncHookHandler {
  const keyHash = digest(apiKey);
  return async (request) => {
    const header = request.headers.authorization ?? '';
    const [, given] = /^Bearer +(\S+) *$/i.exec(header) ?? [];
    if (given !== undefined && isKey(given, keyHash)) return;
    if (header === '' && (await readSession(db, request, keyHash)) !== null) return;
    const hasSession = header === '' && sessionHashOf(request) !== undefined;
    throw new NightshiftError('unauthorized', hasSession ? ENDED : reason(header, given));
  };
}

const ENDED = 'The session has ended. Sign in again.';

function reason(header: string, given: string | undefined): string {
  if (header === '') return 'The request has no API key.';
  return given === undefined
    ? 'The Authorization header is not of the form `Bearer <key>`.'
    : 'The API key is wrong.';
}
