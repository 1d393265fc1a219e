import { estimateBatch, type Cap, type RunGroup } from '@nightshift/agent-core';
import { readStagedLines, type NewRun } from '@nightshift/db';
import { isCapped, refuseCannotStart } from '../estimate/expect-cost.ts';
import { measureRuns, type Measuring } from '../estimate/measure-runs.ts';
import { fromStagedLine } from './staged-run.ts';

/** Lines that are measured before a cap is refused. */
const LINES_JUDGED = 2_000;
/** Lines that are read at once. */
const PORTION = { lines: 200, bytes: 4 * 1024 * 1024 };

/** The staged lines of an upload. */
export interface StagedBatch {
  readonly batch_id: string;
  readonly lines: number;
  readonly shared: NewRun;
}

/**
 * Refuses a cap that leaves no room for a single request of an upload. Never refuses by a sample: an upload of more than
 * 2,000 lines without room is accepted, and pauses.
 * Throws: `validation_failed` with the smallest sensible cap.
 */
export async function refuseLowLineCap(
  measuring: Measuring,
  { batch_id, lines, shared }: StagedBatch,
  cap: Cap,
): Promise<void> {
  if (!isCapped(cap) || lines > LINES_JUDGED) return;
  const groups: RunGroup[] = [];
  for (let from = 0; from < lines;) {
    const rows = await readStagedLines(measuring.db, batch_id, from, PORTION);
    if (rows.length === 0) break;
    const runs = rows.map((row) => fromStagedLine(row, shared));
    const measured = await measureRuns(measuring, { runs, shared_path: null });
    if (estimateBatch(measuring.prices, measured, cap).verdict !== 'cannot_start') return;
    groups.push(...measured);
    from += rows.length;
  }
  refuseCannotStart(estimateBatch(measuring.prices, groups, cap), cap);
}
