import { NightshiftError } from '@nightshift/agent-core';

/** The store that carries signals. With `none` the sweep finds all work. */
export type QueueBackendName = 'redis' | 'postgres' | 'none';

export interface QueueTarget {
  readonly backend: QueueBackendName;
  readonly url: string;
  /** Prefix of every queue name, so that installations and tests can share a store. */
  readonly prefix: string;
}

const defaultPrefix = 'nightshift';
const prefixPattern = /^[A-Za-z0-9_{}-]{1,48}$/;
const backendOfProtocol: ReadonlyMap<string, QueueBackendName> = new Map([
  ['redis:', 'redis'],
  ['rediss:', 'redis'],
  ['postgres:', 'postgres'],
  ['postgresql:', 'postgres'],
]);

/**
 * Parses a queue URL: `redis://`, `rediss://`, `postgres://`, `postgresql://` or `none`.
 * Throws: an error that names the field and never quotes the URL, which may hold a password.
 */
export function parseQueueUrl(queueUrl: string, prefix: string = defaultPrefix): QueueTarget {
  if (!prefixPattern.test(prefix)) {
    throw new Error(
      `queue prefix ${JSON.stringify(prefix)} is not usable: give 1 to 48 of the characters A-Z a-z 0-9 _ - { }`,
    );
  }
  if (queueUrl === 'none') return { backend: 'none', url: queueUrl, prefix };
  const url = withoutEmptyHost(queueUrl);
  // Clients would read the password of a misspelt URL as a path or a database name, and quote it in errors.
  const isPlain = /^[a-z]+:\/\/[^/]*(\/[^@:?#]*)?([?#][^@]*)?$/i.test(url) && URL.canParse(url);
  const backend = isPlain ? backendOfProtocol.get(new URL(url).protocol) : undefined;
  if (backend === undefined) {
    throw new NightshiftError(
      'bad_configuration',
      "QUEUE_URL is not usable: give redis://, rediss://, postgres:// or postgresql:// with a host, or the word 'none'",
    );
  }
  return { backend, url, prefix };
}

/**
 * Moves user and password of a URL without a host to its query, where drivers read them too.
 *
 * `postgres://user:password@/database?host=/var/run/postgresql` is accepted by drivers, but is not a valid URL.
 */
function withoutEmptyHost(queueUrl: string): string {
  const [, scheme, user, rest] = /^(postgres(?:ql)?:\/\/)([^/?#]*@)(\/.*)$/.exec(queueUrl) ?? [];
  if (scheme === undefined || !URL.canParse(`${scheme}${user}host${rest}`)) return queueUrl;
  const { username, password } = new URL(`${scheme}${user}host`);
  if (!isDecodable(username + password)) return queueUrl;
  const url = new URL(`${scheme}${rest}`);
  url.searchParams.set('user', decodeURIComponent(username));
  if (password !== '') url.searchParams.set('password', decodeURIComponent(password));
  return url.href;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
