import { batchMachine, transition, type Admission, type Amount, type StepKey } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, IS_ANSWER_LIMITED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';
import { lockBudgets } from '../../locks/batch/lock-budgets.ts';
import { putTakenOut, type TakenOutRuns } from '../run/run-chunks.ts';
import { takeOutSteps } from '../run/take-out-steps.ts';

/*
 * Money reserved for requests in flight. A step of a capped batch carries its reservation from the sealing on;
 * `batch_budget` holds the sum over sealed steps. Lock order: runs → budgets → counts.
 */

/** The decision about the sealed steps of capped batches. */
export interface ReservationVerdict {
  readonly reserved: readonly {
    readonly run_id: string;
    readonly batch_id: string;
    readonly amount: Amount;
    /** Limit of the answer below `max_tokens`. Default: none. */
    readonly answer_limit?: number | null;
  }[];
  /** Runs whose step is taken out because their budget has no room: they wait for room, or end. */
  readonly turned_away: readonly string[];
  /** Runs whose step is taken out because the provider batch is full; null: none. */
  readonly left: TakenOutRuns | null;
  /** Batches with runs that wait for room. */
  readonly short_batch_ids: readonly string[];
  readonly paused: Admission['paused'];
}

/**
 * Reserves for steps sealed in this transaction, takes out the refused steps, and pauses batches at their cap.
 * Runs of refused steps are ready again: in chunks if the provider batch was full, else in none.
 * The caller holds the batches, the runs and the budgets (`lockBudgets`).
 * Throws: an error, keeping nothing, if a reservation exceeds a cap.
 */
export async function commitReservations(
  trx: Tx,
  providerBatchId: string,
  verdict: ReservationVerdict,
): Promise<void> {
  const { reserved, turned_away, left, short_batch_ids, paused } = verdict;
  if (reserved.length > 0) {
    const amounts = Object.fromEntries(
      reserved.map(({ run_id, amount, answer_limit }) => [run_id, { ...amount, answer_limit }]),
    );
    // Looked up by run: a join would scan all of them per step when steps have no statistics.
    await sql`
      update step s set reserved_nanousd = (a.of -> s.run_id::text -> 'cost_nanousd')::bigint,
                        reserved_output_tokens = (a.of -> s.run_id::text -> 'output_tokens')::int,
                        answer_limit = (a.of -> s.run_id::text ->> 'answer_limit')::int
        from (select ${JSON.stringify(amounts)}::jsonb as of) a
       where s.provider_batch_id = ${providerBatchId}::uuid and s.state = 'sealed' and a.of ? s.run_id::text
    `.execute(trx);
    const sums = sumByBatch(reserved);
    const { numAffectedRows } = await sql`
      with d ${AS_FIRST} (
        select * from json_to_recordset(${JSON.stringify(sums)}::json) as d(b uuid, c bigint, o bigint))
      update batch_budget g
         set reserved_nanousd = g.reserved_nanousd + d.c, reserved_output_tokens = g.reserved_output_tokens + d.o
        from d
       where g.batch_id = d.b
         and (g.max_cost_nanousd is null or g.spent_nanousd + g.reserved_nanousd + d.c <= g.max_cost_nanousd)
         and (g.max_output_tokens is null
              or g.spent_output_tokens + g.reserved_output_tokens + d.o <= g.max_output_tokens)
    `.execute(trx);
    if (Number(numAffectedRows ?? 0) !== sums.length) {
      throw new Error('A reservation would exceed the cap of its batch. Nothing was stored.');
    }
  }
  const out = [...turned_away, ...(left?.run_ids ?? [])];
  if (out.length > 0) await takeOutSteps(trx, providerBatchId, out);
  if (left !== null) await putTakenOut(trx, left);
  if (short_batch_ids.length > 0) {
    await sql`update batch_budget set room = 'short' where batch_id = any(${uuidArray(short_batch_ids)}::uuid[])`.execute(
      trx,
    );
  }
  const to = transition(batchMachine, 'running', 'pause');
  if (paused.length === 0) return;
  const payload = paused.map(({ batch_id, reason, needs }) => ({
    b: batch_id,
    r: reason,
    c: needs.cost_nanousd,
    o: needs.output_tokens,
  }));
  await sql`
    with d as materialized (
      select * from json_to_recordset(${JSON.stringify(payload)}::json) as d(b uuid, r text, c bigint, o bigint)),
    noted as (
      update batch_budget set needs_nanousd = d.c, needs_output_tokens = d.o from d where batch_id = d.b)
    update batch set state = ${to}, state_reason = d.r, updated_at = app_now()
      from d where id = d.b and state = 'running'
  `.execute(trx);
}

/** A step of a capped batch with an outcome, and the cost of its answer, if any. */
export interface SettledStep {
  readonly batch_id: string;
  readonly key: StepKey;
  readonly billed: Amount;
}

/**
 * Releases the reservations of settled steps and books their cost, also above the reservation, which is counted. The sweep queues runs that wait for room again.
 * Locks: the budgets.
 */
export async function settleReservations(trx: Tx, settled: readonly SettledStep[]): Promise<void> {
  if (settled.length === 0) return;
  await lockBudgets(trx, [...new Set(settled.map(({ batch_id }) => batch_id))]);
  const payload = settled.map(({ batch_id, key, billed }) => ({
    b: batch_id,
    r: key.run_id,
    n: key.number,
    a: key.attempt,
    c: billed.cost_nanousd,
    o: billed.output_tokens,
  }));
  await sql`
    with d ${AS_FIRST} (
      select * from json_to_recordset(${JSON.stringify(payload)}::json)
        as d(b uuid, r uuid, n int, a int, c bigint, o bigint)),
    sums ${AS_FIRST} (
      select d.b, coalesce(sum(s.reserved_nanousd), 0)::bigint as held,
             coalesce(sum(s.reserved_output_tokens), 0)::bigint as held_tokens,
             sum(d.c)::bigint as cost, sum(d.o)::bigint as tokens,
             count(*) filter (where d.c > s.reserved_nanousd or d.o > s.reserved_output_tokens) as overshoots,
             coalesce(sum(greatest(0, d.c - s.reserved_nanousd)), 0)::bigint as overshot,
             coalesce(sum(greatest(0, d.o - s.reserved_output_tokens)), 0)::bigint as overshot_tokens,
             count(*) filter (where ${IS_ANSWER_LIMITED} and s.stop_reason = 'max_tokens') as cut_offs
        from d join step s on s.run_id = d.r and s.number = d.n and s.attempt = d.a
       group by d.b)
    update batch_budget g
       set reserved_nanousd = g.reserved_nanousd - s.held,
           reserved_output_tokens = g.reserved_output_tokens - s.held_tokens,
           spent_nanousd = g.spent_nanousd + s.cost, spent_output_tokens = g.spent_output_tokens + s.tokens,
           overshoots = g.overshoots + s.overshoots, overshot_nanousd = g.overshot_nanousd + s.overshot,
           overshot_output_tokens = g.overshot_output_tokens + s.overshot_tokens, cut_offs = g.cut_offs + s.cut_offs,
           room = case g.room when 'short' then 'freed' else g.room end
      from sums s
     where g.batch_id = s.b
  `.execute(trx);
}

/** Releases the reservations of steps taken out before they were sent. Locks: the budgets. */
export async function releaseReservations(
  trx: Tx,
  released: readonly { readonly batch_id: string; readonly amount: Amount }[],
): Promise<void> {
  if (released.length === 0) return;
  await lockBudgets(trx, [...new Set(released.map(({ batch_id }) => batch_id))]);
  await sql`
    with d ${AS_FIRST} (
      select * from json_to_recordset(${JSON.stringify(sumByBatch(released))}::json) as d(b uuid, c bigint, o bigint))
    update batch_budget g
       set reserved_nanousd = g.reserved_nanousd - d.c, reserved_output_tokens = g.reserved_output_tokens - d.o,
           room = case g.room when 'short' then 'freed' else g.room end
      from d
     where g.batch_id = d.b
  `.execute(trx);
}

function sumByBatch(
  parts: readonly { readonly batch_id: string; readonly amount: Amount }[],
): readonly { readonly b: string; readonly c: number; readonly o: number }[] {
  return [...Map.groupBy(parts, ({ batch_id }) => batch_id)].map(([b, of]) => ({
    b,
    c: of.reduce((sum, { amount }) => sum + amount.cost_nanousd, 0),
    o: of.reduce((sum, { amount }) => sum + amount.output_tokens, 0),
  }));
}
