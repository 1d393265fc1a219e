const KEY = 'idempotency-key';

/** Options of a request that must not be carried out twice. */
export interface OnceOptions {
  /** The same key is carried out once, for a day. Default: a random key per call. */
  readonly idempotencyKey?: string;
}

/** Header of a request that the API carries out once, however often it comes. */
export function onceOnly(key: string = randomKey()): { readonly 'idempotency-key': string } {
  return { [KEY]: key };
}

/** Gives the headers of a POST a random `Idempotency-Key` if they have none. */
export function withOnceKey(method: string, headers: Headers): Headers {
  if (method.toUpperCase() === 'POST' && !headers.has(KEY)) headers.set(KEY, randomKey());
  return headers;
}

/** Returns 128 random bits. `crypto.randomUUID` is missing in pages without TLS. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
