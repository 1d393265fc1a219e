import {
  readEndedRuns,
  readResultsInOrder,
  readResultsOfRuns,
  readRunUsages,
  type Database,
  type ResultFilter,
  type ResultRow,
  type Usage,
} from '@nightshift/db';
import type { EndPosition, InputPosition } from './cursor.ts';

/** A part of the results that fits into memory. */
export interface ResultPage<Position> {
  /** Runs, each with the position behind it. */
  readonly runs: readonly { readonly row: ResultRow; readonly position: Position }[];
  /** The position behind the page. */
  readonly position: Position;
}

/** Most runs that are looked at for a page. */
const PAGE_RUNS = 250;

/** The batch of a download as it was when the download began. */
export interface ReadBatch {
  readonly id: string;
  /** Stored runs. */
  readonly accepted: number;
  readonly has_ended: boolean;
  /** Later batches that try its runs again, oldest first. */
  readonly retries: readonly string[];
}

/** Yields the runs of a batch that have ended, by ordinal. The last page may be empty. */
export async function* pagesInOrder(
  db: Database,
  batch: ReadBatch,
  filter: ResultFilter,
  from: InputPosition,
): AsyncGenerator<ResultPage<InputPosition>> {
  const is_partial = from.is_partial || !batch.has_ended;
  for (let { ordinal } = from; ordinal < batch.accepted;) {
    const below = Math.min(ordinal + PAGE_RUNS, batch.accepted);
    const { rows, is_cut } = await readResultsInOrder(
      db,
      batch.id,
      { from: ordinal, below },
      filter,
      batch.retries,
    );
    const runs = rows.map((row) => ({ row, position: { ordinal: row.place + 1, is_partial } }));
    const position = (is_cut ? runs.at(-1)?.position : undefined) ?? { ordinal: below, is_partial };
    yield { runs, position };
    ordinal = position.ordinal;
  }
  yield { runs: [], position: { ordinal: Math.max(from.ordinal, batch.accepted), is_partial } };
}

/** Yields the runs of a batch in the order of their ends, until none is left. */
export async function* pagesByEnd(
  db: Database,
  batch: ReadBatch,
  filter: ResultFilter,
  from: EndPosition,
): AsyncGenerator<ResultPage<EndPosition>> {
  let position = from;
  for (;;) {
    const commits = await readEndedRuns(
      db,
      batch.id,
      position.map(({ version }) => version),
    );
    if (commits.length === 0) break;
    const ended = commits.flatMap(({ slot, version, run_ids }) => {
      const before = position;
      const { version: last = 0, runs: passed = 0 } = before[slot] ?? {};
      position = before.with(slot, { version, runs: 0 });
      return run_ids.slice(passed).map((run_id, index) => {
        const runs = passed + index + 1;
        const isLast = runs === run_ids.length;
        return { run_id, position: isLast ? position : before.with(slot, { version: last, runs }) };
      });
    });
    yield* pagesOfRuns(db, ended, filter);
  }
  yield { runs: [], position };
}

/** Yields these runs as far as they exist. */
async function* pagesOfRuns(
  db: Database,
  ended: readonly { readonly run_id: string; readonly position: EndPosition }[],
  filter: ResultFilter,
): AsyncGenerator<ResultPage<EndPosition>> {
  for (let start = 0; start < ended.length;) {
    const part = ended.slice(start, start + PAGE_RUNS);
    const ids = part.map(({ run_id }) => run_id);
    const { rows, is_cut } = await readResultsOfRuns(db, ids, filter);
    const runs = rows.flatMap((row) => {
      const position = part[row.place - 1]?.position;
      return position === undefined ? [] : [{ row, position }];
    });
    const taken = is_cut ? (rows.at(-1)?.place ?? part.length) : part.length;
    const position = part[taken - 1]?.position;
    if (position !== undefined) yield { runs, position };
    start += taken;
  }
}

/** A page with the usage of its runs. */
export interface UsedPage<Position> extends ResultPage<Position> {
  readonly usages: ReadonlyMap<string, Usage>;
}

/** Yields pages with the usage of their runs. The database reads the next page while a page is converted and sent. */
export async function* readAhead<Position>(
  db: Database,
  pages: AsyncGenerator<ResultPage<Position>>,
): AsyncGenerator<UsedPage<Position>> {
  const read = async (): Promise<UsedPage<Position> | null> => {
    const next = await pages.next();
    if (next.done === true) return null;
    const ids = next.value.runs.map(({ row }) => row.id);
    return { ...next.value, usages: await readRunUsages(db, ids) };
  };
  let reading = read();
  try {
    for (let page = await reading; page !== null; page = await reading) {
      reading = read();
      // A failure is thrown when the page is due.
      reading.catch(() => undefined);
      yield page;
    }
  } finally {
    await reading.catch(() => undefined);
  }
}
