/** A well-formed URL: scheme, userinfo up to its last `@`, host and port, path, query. */
const PLAIN =
  /^([a-z][a-z0-9+.-]*):\/\/(?:[^/?#\s]*@)?((?:[\w.-]+|\[[0-9a-f:.]+\])?(?::\d{0,5})?)((?:\/[\w.%~-]*)?)(?:[?#][^@]*)?$/i;
/** As PLAIN, without its path, which may hold tokens of callbacks and gateways. */
const PLAIN_HTTP = /^(https?):\/\/(?:[^/?#\s]*@)?((?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?)(?:[/?#][^@]*)?$/i;
const KNOWN_SCHEME = /^(postgres|postgresql|redis|rediss|https?):/i;

/**
 * Reduces a URL to the parts that logs and errors may show: scheme, host, port, and the path of a database.
 * User, password and query are removed. Of a misspelt URL only the scheme is kept, since a password may stand anywhere in it.
 */
export function safeUrl(url: string): string {
  const [, scheme, place, path = ''] = (/^https?:/i.test(url) ? PLAIN_HTTP : PLAIN).exec(url) ?? [];
  if (scheme !== undefined && place !== undefined) return `${scheme}://${place}${path}`;
  const [, known] = KNOWN_SCHEME.exec(url) ?? [];
  return known === undefined ? '(not a URL)' : `${known}:(misspelt)`;
}

/** Returns the message of a client's error; for a misspelt URL only the code, since clients quote its parts. */
export function safeReason(error: unknown, url: string): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const isPlain = safeUrl(url).includes('://');
  return (isPlain ? message || code : code) ?? 'it cannot be read';
}
