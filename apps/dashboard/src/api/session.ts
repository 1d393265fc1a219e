import { queryOptions } from '@tanstack/react-query';

/** A signed-in browser. */
export interface Session {
  readonly expires_at: string;
  /** Version of the API: a page of another version is loaded again. */
  readonly version: string;
  readonly model: 'simulator' | 'anthropic';
}

/** Reads the session; null if the browser is not signed in. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: async ({ signal }): Promise<Session | null> => {
    const response = await fetch('/v1/session', { signal });
    if (response.status === 401) return null;
    if (!response.ok) throw new Error('The API does not answer as it should. It is tried again.');
    return (await response.json()) as Session;
  },
  staleTime: 60_000,
  refetchInterval: 60_000,
});

/**
 * Signs in by an API key, or by the token of a link that `npm start` printed.
 * Throws: an error whose message is for the person.
 */
export async function signIn(by: { readonly api_key: string } | { readonly token: string }): Promise<void> {
  const response = await fetch('/v1/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(by),
  });
  if (response.ok) return;
  const problem = (await response.json().catch(() => ({}))) as { readonly detail?: string };
  throw new Error(problem.detail ?? 'The API refused to sign in. Check the key.');
}

export async function signOut(): Promise<void> {
  await fetch('/v1/session', { method: 'DELETE' });
}

/** Takes the token of a sign-in link out of the address; null without one. */
export function takeTokenOfLink(): string | null {
  const token = new URLSearchParams(window.location.hash.slice(1)).get('token');
  if (token !== null)
    window.history.replaceState(null, '', window.location.pathname + window.location.search);
  return token;
}
