/** A URL whose parts stand where they belong: scheme, userinfo up to its last `@`, host and port, path, query. */
const PLAIN =
  /^([a-z][a-z0-9+.-]*):\/\/(?:[^/?#\s]*@)?((?:[\w.-]+|\[[0-9a-f:.]+\])?(?::\d{0,5})?)((?:\/[\w.%~-]*)?)(?:[?#][^@]*)?$/i;
/** As PLAIN; the path, in which callbacks and gateways have tokens, is not looked at. */
const PLAIN_HTTP = /^(https?):\/\/(?:[^/?#\s]*@)?((?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?)(?:[/?#][^@]*)?$/i;
const KNOWN_SCHEME = /^(postgres|postgresql|redis|rediss|https?):/i;

/**
 * A URL fit for logs and errors: scheme, host, port, and the path of a database. Never user and password, nor the query, which
 * may hold one too; of a URL that is misspelt only the scheme, as a password may stand anywhere in it.
 */
export function safeUrl(url: string): string {
  const [, scheme, place, path = ''] = (/^https?:/i.test(url) ? PLAIN_HTTP : PLAIN).exec(url) ?? [];
  if (scheme !== undefined && place !== undefined) return `${scheme}://${place}${path}`;
  const [, known] = KNOWN_SCHEME.exec(url) ?? [];
  return known === undefined ? '(not a URL)' : `${known}:(misspelt)`;
}

/** The message of a client that failed at `url`; of a URL that is misspelt only the code, as clients quote what they take for its parts. */
export function safeReason(error: unknown, url: string): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const isPlain = safeUrl(url).includes('://');
  return (isPlain ? message || code : code) ?? 'it cannot be read';
}
