/** Up to where a host would stand in `postgres://user:password@/database`. */
const EMPTY_HOST = /^(postgres(?:ql)?:\/\/[^/?#]*@)(?=\/)/;
const NO_HOST = 'no-host.invalid';

/**
 * A connection URL fit for logs and errors: scheme, user, host, port and path; never the password, and never the query,
 * which may hold one too.
 */
export function safeUrl(url: string): string {
  try {
    // Drivers take a host from the query or their defaults; a URL with a user has to have one.
    const named = url.replace(EMPTY_HOST, `$1${NO_HOST}`);
    const { protocol, username, host, pathname } = new URL(named);
    return `${protocol}//${username === '' ? '' : `${username}@`}${host === NO_HOST ? '' : host}${pathname}`;
  } catch {
    return '(not a URL)';
  }
}
