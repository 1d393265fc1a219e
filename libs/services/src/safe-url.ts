/**
 * A connection URL fit for logs and errors: scheme, user, host, port and path; never the password, and never the query,
 * which may hold one too.
 */
export function safeUrl(url: string): string {
  try {
    const { protocol, username, host, pathname } = new URL(url);
    return `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}`;
  } catch {
    return '(not a URL)';
  }
}
