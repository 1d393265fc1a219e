import type { Line } from '../../provider/line-splitter.ts';

/** Maximum characters of the lines of one transaction: long answers make smaller chunks, to limit memory. */
const CHUNK_CHARS_MAX = 4_000_000;

/**
 * Regroups lines into chunks of `size` lines, read when a chunk begins; fewer if they are long.
 * An error of the source is thrown after all lines before it, so that a file that always breaks at the same place makes
 * progress.
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
 * Runs `work` on each item with at most `limit` in progress, and reads no further ahead to limit memory.
 * Throws: the first error, once all work in progress has settled. An error of `work` goes before an error of the items.
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
