import type { StepDecision } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import type { RunToDecide } from '../../reads/run/runs-to-decide.ts';

/**
 * Counts are spread over a few slots, so that commits of one batch seldom wait for each other. Each
 * commit draws one; a test may choose it.
 */
export function tallySlot(): number {
  return Math.floor(Math.random() * 8);
}

/** What a run's part of a commit adds to the counts of its batch. */
export interface Tallied {
  readonly run: RunToDecide;
  readonly move: StepDecision['run'];
  readonly steps: number;
  readonly tool_calls: number;
  readonly step: StepDecision['step'] | null;
}

/** Adds what runs came to, to the counts of their batches. */
export async function addToTallies(trx: Tx, tallied: readonly Tallied[], slot: number): Promise<void> {
  const sums = new Map<string, ReturnType<typeof noSum>>();
  for (const { run, move, steps, tool_calls, step } of tallied) {
    let sum = sums.get(run.batch_id);
    if (sum === undefined) sums.set(run.batch_id, (sum = noSum(run)));
    if (move.state !== 'ready' && move.state !== 'acting') sum[move.state] += 1;
    sum.steps += steps;
    sum.tool_calls += tool_calls;
    if (step !== null) {
      sum.i += step.usage.input_tokens;
      sum.o += step.usage.output_tokens;
      sum.w5 += step.usage.cache_write_5m_tokens;
      sum.w1 += step.usage.cache_write_1h_tokens;
      sum.cr += step.usage.cache_read_tokens;
      sum.c += step.cost_nanousd ?? 0;
      sum.u += step.cost_nanousd === null ? 1 : 0;
    }
  }
  await addTallies(trx, [...sums.values()], slot);
}

function noSum({ batch_id, project_id }: RunToDecide) {
  return {
    batch: batch_id,
    project: project_id,
    completed: 0,
    failed: 0,
    cancelled: 0,
    expired: 0,
    requires_action: 0,
    steps: 0,
    tool_calls: 0,
    i: 0,
    o: 0,
    w5: 0,
    w1: 0,
    cr: 0,
    c: 0,
    u: 0,
  };
}

/** Adds sums to the counts of batches, in batch id order. */
async function addTallies(
  trx: Tx,
  sums: readonly Record<string, number | string>[],
  slot: number,
): Promise<void> {
  if (sums.length === 0) return;
  await sql`
    insert into batch_tally as t (batch_id, slot, project_id, completed, failed, cancelled, expired, requires_action,
      steps, tool_calls, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, cost_nanousd,
      unpriced_steps)
    select batch, ${slot}::int, project, completed, failed, cancelled, expired, requires_action, steps, tool_calls, i, o, w5, w1, cr, c, u
      from json_to_recordset(${JSON.stringify(sums)}::json)
        as d(batch uuid, project uuid, completed int, failed int, cancelled int, expired int, requires_action int, steps int, tool_calls int,
             i bigint, o bigint, w5 bigint, w1 bigint, cr bigint, c bigint, u int)
     order by batch
    on conflict (batch_id, slot) do update
       set completed = t.completed + excluded.completed, failed = t.failed + excluded.failed,
           cancelled = t.cancelled + excluded.cancelled, expired = t.expired + excluded.expired,
           requires_action = t.requires_action + excluded.requires_action,
           steps = t.steps + excluded.steps, tool_calls = t.tool_calls + excluded.tool_calls,
           input_tokens = t.input_tokens + excluded.input_tokens, output_tokens = t.output_tokens + excluded.output_tokens,
           cache_write_5m_tokens = t.cache_write_5m_tokens + excluded.cache_write_5m_tokens,
           cache_write_1h_tokens = t.cache_write_1h_tokens + excluded.cache_write_1h_tokens,
           cache_read_tokens = t.cache_read_tokens + excluded.cache_read_tokens,
           cost_nanousd = t.cost_nanousd + excluded.cost_nanousd,
           unpriced_steps = t.unpriced_steps + excluded.unpriced_steps
  `.execute(trx);
}
