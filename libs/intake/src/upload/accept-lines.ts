import type { PriceTable } from '@nightshift/agent-core';
import {
  commitPortion,
  distinctDefinitions,
  insertSkippedLines,
  placeRuns,
  readRunAgents,
  requestedDefinitions,
  takeStagedLines,
  type ReceivingBatch,
  type Tx,
} from '@nightshift/db';
import { skipReasonOf } from '../fleet/read-fleet-plans.ts';
import { fromStagedLine, type LinesSource } from './staged-run.ts';

/** Most bytes of the staged lines of a portion. A single line may have more. */
const PORTION_BYTES_MAX = 8 * 1024 * 1024;

/**
 * Makes the runs of the next staged lines of a batch and deletes the lines; null after the last. A line whose agent was
 * deleted, or no longer fits, is skipped with its reason. The caller holds the batch.
 * Throws: for lines that are lost.
 */
export async function acceptLines(
  trx: Tx,
  batch: ReceivingBatch,
  source: LinesSource,
  { prices, lines_max }: { readonly prices: PriceTable; readonly lines_max: number },
): Promise<{ readonly agents: number; readonly runs: number } | null> {
  const { id, project_id, agents_taken } = batch;
  const limits = { lines: lines_max, bytes: PORTION_BYTES_MAX };
  const staged = await takeStagedLines(trx, id, agents_taken, limits);
  if (staged.length === 0) {
    const lines = batch.total + agents_taken - batch.accepted;
    if (agents_taken < lines)
      throw new Error(
        `Batch ${id} has ${lines} lines, but no line is staged after ${agents_taken}. Cancel it.`,
      );
    return null;
  }
  const all = staged.map((line) => fromStagedLine(line, source.shared));
  const requested = requestedDefinitions(all);
  const distinct = distinctDefinitions(requested);
  for (;;) {
    const found = await readRunAgents(trx, project_id, distinct);
    const planned = all.map((run, index) => {
      const request = requested[index];
      const agent = request === undefined ? undefined : found.get(request.key);
      return { run, request, agent, reason: skipReasonOf(run, agent, batch, prices) };
    });
    const accepted = planned.flatMap(({ run, request, agent, reason }) =>
      reason === null && request !== undefined && agent !== undefined ? [{ run, request, agent }] : [],
    );
    const placed = await placeRuns(
      trx,
      project_id,
      accepted.map(({ run }) => run),
      accepted.map(({ request }) => request),
      accepted.map(({ agent }) => agent),
      { runs: batch.accepted, last_run_id: batch.last_run_id },
    );
    // An agent has changed since the read.
    if (placed === null) continue;
    const skipped = planned.flatMap(({ run, reason }, index) =>
      reason === null ? [] : [{ ordinal: agents_taken + index, agent_id: run.agent_id, reason }],
    );
    await insertSkippedLines(trx, project_id, id, skipped);
    await commitPortion(trx, batch, { agents: all.length, deadline: source.deadline, placed, skipped });
    return { agents: all.length, runs: accepted.length };
  }
}
