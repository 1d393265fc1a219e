import type { IncomingHttpHeaders } from 'node:http';
import { apiFailure } from '../api-error.ts';
import type { SimulatorState } from '../state.ts';

const VERSIONS = ['2023-06-01', '2026-10-21'];

/**
 * Returns the workspace of a request's key.
 * Throws: the provider's 401.
 */
export function authenticate(state: SimulatorState, headers: IncomingHttpHeaders): string {
  const bearer = /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1];
  const key = bearer ?? headers['x-api-key'];
  if (typeof key !== 'string' || key === '') {
    throw apiFailure('authentication_error', 'x-api-key header or Authorization: Bearer token is required');
  }
  if (state.apiKey !== null && key !== state.apiKey)
    throw apiFailure('authentication_error', 'invalid x-api-key');
  const { workspaces } = state.settings;
  return (Object.hasOwn(workspaces, key) ? workspaces[key] : undefined) ?? 'default';
}

/**
 * Returns the API version of a request.
 * Throws: the provider's 400.
 */
export function apiVersion(headers: IncomingHttpHeaders): string {
  const version = headers['anthropic-version'];
  if (typeof version !== 'string')
    throw apiFailure('invalid_request_error', 'anthropic-version: header is required');
  if (!VERSIONS.includes(version)) {
    throw apiFailure('invalid_request_error', `anthropic-version: "${version}" is not a valid version`);
  }
  return version;
}

/** Returns the requested betas. */
export function betasOf(headers: IncomingHttpHeaders): string[] {
  const header = headers['anthropic-beta'];
  return header === undefined
    ? []
    : String(header)
        .split(',')
        .map((beta) => beta.trim())
        .filter((beta) => beta !== '');
}
