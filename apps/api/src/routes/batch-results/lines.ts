import { toLettaMessages, toWireId, type ContentBlock } from '@nightshift/agent-core';
import {
  findWritesOfRuns,
  readMemoryChanges,
  readMessagesOfRuns,
  readReturnedCalls,
  type Database,
  type MemoryChangeRow,
  type ResultRow,
  type RunWrite,
  type Usage,
} from '@nightshift/db';
import { toError } from '../../wire/to-run.ts';
import { toMemoryChange } from '../../wire/to-memory-change.ts';
import { toStoredMessage } from '../../wire/to-stored-message.ts';
import { toUsage } from '../../wire/to-usage.ts';
import type { ResultsQuery, RunResult } from '../../schemas/results.ts';
import { NO_USAGE } from '../runs/answer-runs.ts';

/** Parts of a line beside the run itself. */
export type Included = ReadonlySet<NonNullable<ResultsQuery['include']>[number]>;

/** A line without its cursor. */
export type RunLine = Omit<RunResult, 'cursor'>;

/** Bytes of memory texts that are read at once. */
const WRITE_BYTES = 4 * 1024 * 1024;

/** Yields a line for each run, in order. Reads each kind of included part for all runs at once; memory texts by their size. */
export async function* toRunLines(
  db: Database,
  rows: readonly ResultRow[],
  usages: ReadonlyMap<string, Usage>,
  include: Included,
): AsyncGenerator<RunLine> {
  if (rows.length === 0) return;
  const messages = include.has('messages') ? await readMessages(db, rows) : null;
  const changes = include.has('memory_changes') ? await openChanges(db, rows) : null;
  for (const row of rows) {
    const used = toUsage(usages.get(row.id) ?? NO_USAGE);
    yield {
      custom_id: row.custom_id,
      run_id: toWireId('run', row.id),
      agent_id: toWireId('agent', row.agent_id),
      ...(include.has('retries') ? { batch_id: toWireId('job', row.batch_id) } : {}),
      state: row.state as RunResult['state'],
      ended_reason: row.stop_reason,
      text: row.answer === null ? null : textOf(row.answer),
      result: row.result,
      error: toError(row),
      steps: used.steps,
      usage: used,
      cost_usd: used.cost_usd,
      attempts: row.attempt,
      ...(messages === null ? {} : { messages: messages.get(row.id) ?? [] }),
      ...(changes === null ? {} : { memory_changes: (await changes(row.id)).map(toMemoryChange) }),
    };
  }
}

/** Returns the text of an answer; null without any. */
function textOf(content: readonly ContentBlock[]): string | null {
  const texts = content.flatMap(({ type, text }) =>
    type === 'text' && typeof text === 'string' ? [text] : [],
  );
  return texts.length === 0 ? null : texts.join('');
}

async function readMessages(
  db: Database,
  rows: readonly ResultRow[],
): Promise<ReadonlyMap<string, NonNullable<RunResult['messages']>>> {
  const messages = await readMessagesOfRuns(db, rows);
  const returned_calls = await readReturnedCalls(db, messages);
  const byPlace = Map.groupBy(messages, (message) => message.place);
  return new Map(
    rows.map((row, index) => [
      row.id,
      (byPlace.get(index + 1) ?? []).flatMap((message) =>
        toLettaMessages(toStoredMessage(message, row.agent_id), { returned_calls }).map((item) => ({
          ...item,
        })),
      ),
    ]),
  );
}

/**
 * Finds the writes of runs, and returns a function that reads those of a run. It reads ahead for the runs behind, in the order of
 * `rows`, and forgets runs once they are read.
 */
async function openChanges(
  db: Database,
  rows: readonly ResultRow[],
): Promise<(runId: string) => Promise<readonly MemoryChangeRow[]>> {
  const batchIds = [...new Set(rows.map((row) => row.batch_id))];
  const writes = await findWritesOfRuns(
    db,
    batchIds,
    rows.map((row) => row.id),
  );
  const byRun = Map.groupBy(writes, (write) => write.run_id);
  const order = rows.filter((row) => byRun.has(row.id)).map((row) => row.id);
  const read = new Map<string, readonly MemoryChangeRow[]>();
  return async (runId) => {
    if (!byRun.has(runId)) return [];
    if (!read.has(runId)) {
      const keys = firstWrites(order.slice(order.indexOf(runId)), byRun);
      const changes = await readMemoryChanges(db, keys);
      for (const [id, own] of Map.groupBy(changes, (change) => change.run_id)) read.set(id, own);
    }
    const own = read.get(runId) ?? [];
    read.delete(runId);
    return own;
  };
}

/** Returns the writes of the first runs, up to {@link WRITE_BYTES} but at least of one run. */
function firstWrites(
  runIds: readonly string[],
  byRun: ReadonlyMap<string, readonly RunWrite[]>,
): readonly RunWrite[] {
  const taken: RunWrite[] = [];
  let bytes = 0;
  for (const id of runIds) {
    const writes = byRun.get(id) ?? [];
    bytes += writes.reduce((sum, write) => sum + write.bytes, 0);
    if (taken.length > 0 && bytes > WRITE_BYTES) break;
    taken.push(...writes);
  }
  return taken;
}
