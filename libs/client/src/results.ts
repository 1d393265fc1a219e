import { NightshiftResultsError } from './errors.ts';
import type { DownloadResultsData, ResultLine, ResultsEndDetail, RunResult } from './generated/types.gen.ts';
import { linesOf } from './lines.ts';
import type { Send } from './send.ts';
import { backoffOf, pause } from './transport.ts';

export type ResultsQuery = NonNullable<DownloadResultsData['query']>;

/** Options of `batches.results`. */
export interface ResultsOptions {
  /** Ends the download; the iterator throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** With `after`: number of runs up to its line, for the check of the count. Default: the count is not checked then. */
  readonly countBefore?: number;
}

/** Cuts in a row without a new line, after which the download gives up. */
const CUTS_MAX = 10;

/**
 * Yields the runs of the batch that have ended, each once, and returns the end of the file. A download that is cut goes on behind
 * its last line, however long the API is away.
 * Throws: {@link NightshiftResultsError} if the count of the file does not fit.
 */
export async function* resultsOf(
  send: Send,
  id: string,
  query: ResultsQuery,
  { signal, countBefore }: ResultsOptions,
): AsyncGenerator<RunResult, ResultsEndDetail, undefined> {
  let { after } = query;
  let count = after === undefined ? 0 : countBefore;
  let isStarted = false;
  for (let cuts = 0; ;) {
    const before = after;
    const answer = await send('GET', `/v1/batches/${id}/results`, {
      query: { ...query, after },
      signal,
      retriesMax: isStarted ? Infinity : undefined,
      isStream: true,
    });
    isStarted = true;
    const lines = linesOf(answer.body);
    try {
      for (let text = await nextOf(lines, signal); text !== null; text = await nextOf(lines, signal)) {
        const line = parse(text, id);
        if ('end' in line) {
          if (count !== undefined && line.end.count !== count)
            throw new NightshiftResultsError(
              id,
              'count',
              `the file counts ${line.end.count} runs, but ${count} came`,
            );
          return line.end;
        }
        yield line;
        after = line.cursor;
        if (count !== undefined) count += 1;
      }
    } finally {
      await lines.return();
    }
    cuts = after === before ? cuts + 1 : 0;
    if (cuts > CUTS_MAX)
      throw new NightshiftResultsError(id, 'cut', `the download was cut ${cuts} times at the same line`);
    if (cuts > 0) await pause(backoffOf(cuts), signal);
  }
}

/** Returns the next line; null at the end of the body, and if it is cut. */
async function nextOf(
  lines: AsyncGenerator<string, void>,
  signal: AbortSignal | undefined,
): Promise<string | null> {
  try {
    const next = await lines.next();
    return next.done === true ? null : next.value;
  } catch {
    signal?.throwIfAborted();
    return null;
  }
}

function parse(text: string, id: string): ResultLine {
  try {
    return JSON.parse(text) as ResultLine;
  } catch {
    throw new NightshiftResultsError(id, 'line', `a line is not JSON: ${text.slice(0, 80)}`);
  }
}
