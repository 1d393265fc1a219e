import { readRun, readRunUsages, type RunRow } from '@nightshift/db';
import type { Context } from '../../context.ts';
import type { RunResponse } from '../../schemas/run.ts';
import { toRunResponse } from '../../wire/to-run.ts';
import { readOpenCalls } from './awaiting.ts';

/** What a run has used that is gone. */
export const NO_USAGE = {
  steps: 0,
  tool_calls: 0,
  failed_tool_calls: 0,
  input_tokens: 0,
  output_tokens: 0,
  cache_write_tokens: 0,
  cache_read_tokens: 0,
  cost_nanousd: 0,
};

/** Answers stored runs: one statement for the usage of all, one look at the calls of those that wait for the caller. */
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

/** Answers one run; throws `not_found`. */
export async function answerRun(context: Context, runId: string): Promise<RunResponse> {
  const run = await readRun(context.db, context.projectId, runId);
  const [answer] = await answerRuns(context, [run]);
  if (answer === undefined) throw new Error('One run has one answer.');
  return answer;
}
