/** Which store carries the signals. `none` carries none: everything is then found by looking at due rows. */
export type QueueBackendName = 'redis' | 'postgres' | 'none';

export interface QueueTarget {
  readonly backend: QueueBackendName;
  readonly url: string;
  /** Leads every queue name, so that installations and tests can share a store. */
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
 * Reads a queue URL (`redis://`, `rediss://`, `postgres://`, `postgresql://` or `none`).
 * Throws an error that names the field and never repeats the URL, which may hold a password.
 */
export function parseQueueUrl(queueUrl: string, prefix: string = defaultPrefix): QueueTarget {
  if (!prefixPattern.test(prefix)) {
    throw new Error(
      `queue prefix ${JSON.stringify(prefix)} is not usable: give 1 to 48 of the characters A-Z a-z 0-9 _ - { }`,
    );
  }
  if (queueUrl === 'none') return { backend: 'none', url: queueUrl, prefix };
  const backend = URL.canParse(queueUrl) ? backendOfProtocol.get(new URL(queueUrl).protocol) : undefined;
  if (backend === undefined) {
    throw new Error(
      "QUEUE_URL is not usable: give redis://, rediss://, postgres:// or postgresql:// with a host, or the word 'none'",
    );
  }
  return { backend, url: queueUrl, prefix };
}
