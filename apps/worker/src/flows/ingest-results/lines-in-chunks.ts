import type { Line } from '../../provider/line-splitter.ts';

/** Characters of the lines of one transaction: long answers make smaller chunks, so that memory does not grow with them. */
const CHUNK_CHARS_MAX = 4_000_000;

/**
 * Regroups lines into chunks of `size`, as it is when a chunk begins; fewer where they are long. What the source throws
 * is thrown after all lines before it: a file that always breaks at the same place gets on by what it holds.
 */
export async function* linesInChunks(
  source: AsyncIterable<readonly Line[]>,
  size: () => number,
): AsyncGenerator<readonly Line[]> {
  let chunk: Line[] = [];
  let chars = 0;
  try {
    for await (const lines of source) {
      for (const line of lines) {
        chunk.push(line);
        chars += line.kind === 'line' ? line.text.length : line.head.length;
        if (chunk.length >= size() || chars >= CHUNK_CHARS_MAX) {
          yield chunk;
          chunk = [];
          chars = 0;
        }
      }
    }
  } catch (error) {
    if (chunk.length > 0) yield chunk;
    throw error;
  }
  if (chunk.length > 0) yield chunk;
}

/**
 * Runs `work` on each item with at most `limit` under way, reading no further ahead: memory does not grow with the
 * file. The first error ends it, once what is under way has settled; one of `work` goes before one of the items.
 */
export async function eachInFlight<T>(
  items: AsyncIterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const underWay = new Set<Promise<void>>();
  const errors: unknown[] = [];
  try {
    for await (const item of items) {
      const task: Promise<void> = work(item)
        .catch((error: unknown) => {
          errors.push(error);
        })
        .finally(() => underWay.delete(task));
      underWay.add(task);
      if (underWay.size >= limit) await Promise.race(underWay);
      if (errors.length > 0) break;
    }
  } catch (error) {
    await Promise.all(underWay);
    throw errors[0] ?? error;
  }
  await Promise.all(underWay);
  if (errors.length > 0) throw errors[0];
}
