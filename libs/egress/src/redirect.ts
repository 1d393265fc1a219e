import type { EgressRequest } from './request.ts';

/** Statuses with a new place in `location`. */
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Headers that may go to another origin. Any other may hold a secret. */
const HARMLESS_HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'content-type',
  'user-agent',
]);

/** Returns whether an answer with this status and `location` leads elsewhere. */
export function isRedirect(status: number, location: string | undefined): location is string {
  return REDIRECTS.has(status) && location !== undefined;
}

/**
 * Makes the request that follows a redirect; its URL is not checked.
 * 303, and 301 or 302 of a POST, become a GET without a body, as in the Fetch Standard. Another scheme, host or port gets
 * harmless headers only.
 */
export function followRedirect(
  request: EgressRequest,
  from: string,
  location: string,
  status: number,
): EgressRequest {
  const to = URL.parse(location, from);
  const isElsewhere = to?.origin !== new URL(from).origin;
  const becomesGet =
    status === 303
      ? request.method !== 'HEAD'
      : request.method === 'POST' && (status === 301 || status === 302);
  const headers = Object.entries(request.headers).filter(([name]) => {
    const lower = name.toLowerCase();
    return !(becomesGet && lower === 'content-type') && !(isElsewhere && !HARMLESS_HEADERS.has(lower));
  });
  return {
    method: becomesGet ? 'GET' : request.method,
    url: to?.href ?? location,
    headers: Object.fromEntries(headers),
    body: becomesGet ? undefined : request.body,
  };
}
