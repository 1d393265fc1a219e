import { join } from 'node:path';

/** The demo's client of the HTTP API. */
export interface Client {
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
}

/** Creates a client. A failed request throws an error with the service's explanation. */
export function createClient(apiUrl: string, apiKey: string): Client {
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const answer = await fetch(`${apiUrl}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path} → ${answer.status} ${text.slice(0, 500)}`);
    return JSON.parse(text) as T;
  };
  return {
    get: (path) => call('GET', path),
    post: (path, body) => call('POST', path, body),
  };
}

/**
 * Returns a POSIX shell expression for the service's API key.
 * It reads the environment variable if it is set, else the key file.
 */
export function keyForShell(dataDir: string): string {
  if ((process.env.NIGHTSHIFT_API_KEY ?? '') !== '') return '$NIGHTSHIFT_API_KEY';
  return `$(cat '${join(dataDir, 'api-key').replaceAll("'", String.raw`'\''`)}')`;
}

/** Runs `work` on every item, at most `limit` at a time. Returns the results in order. */
export async function eachOf<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const answers = new Array<R>(items.length);
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < items.length; index = next++) {
      const item = items[index];
      if (item !== undefined) answers[index] = await work(item);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
  return answers;
}
