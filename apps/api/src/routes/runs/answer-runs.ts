import { readRun, readRunUsages, type RunRow } from '@nightshift/db';
import type { Context } from '../../context.ts';
import type { RunResponse } from '../../schemas/run.ts';
import { toRunResponse } from '../../wire/to-run.ts';
import { readOpenCalls } from './awaiting.ts';

/** Usage of a run that no longer exists. */
export const NO_USAGE = {
  steps: 0,
  tool_calls: 0,
  failed_tool_calls: 0,
  unknown_tool_calls: 0,
  input_tokens: 0,
  output_tokens: 0,
  cache_write_tokens: 0,
  cache_read_tokens: 0,
  cost_nanousd: 0,
};

/** Answers stored runs. Reads all usage in one statement, and the calls of runs that wait for the caller in one read. */
export async function answerRuns({ db }: Context, rows: readonly RunRow[]): Promise<RunResponse[]> {
  const usages = await readRunUsages(
    db,
    rows.map((row) => row.id),
  );
  const waiting = rows.filter((row) => row.state === 'requires_action');
  const open = await readOpenCalls(
    db,
    waiting.map((row) => row.id),
  );
  return rows.map((row) => toRunResponse(row, usages.get(row.id) ?? NO_USAGE, open.get(row.id) ?? []));
}

/**
 * Answers a run.
 * Throws: `not_found`.
 */
export async function answerRun(context: Context, runId: string): Promise<RunResponse> {
  const run = await readRun(context.db, context.projectId, runId);
  const [answer] = await answerRuns(context, [run]);
  if (answer === undefined) throw new Error('A single run has an answer.');
  return answer;
}
