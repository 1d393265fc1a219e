import { join } from 'node:path';
import { createNightshift } from '../../libs/client/src/index.ts';

/** Reads and posts JSON by path. */
export interface Client {
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
}

/** Creates a client. Requests without an answer are repeated; a refused request throws the API's sentence. */
export function createClient(url: string, apiKey: string): Client {
  const { request } = createNightshift({ url, apiKey });
  const call = async <T>(...wanted: Parameters<typeof request>): Promise<T> =>
    (await (await request(...wanted)).json()) as T;
  return {
    get: (path) => call('GET', path),
    post: (path, json) => call('POST', path, { json }),
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
