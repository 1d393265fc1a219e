import { toStorableText } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { addToTallies, tallySlot } from '../batch/tallies.ts';
import { writeCallOutputs, type CallOutput } from './call-outputs.ts';
import { ENDED_CALL_COUNTS, type EndedCallCounts } from './decided-rows.ts';

/** The result of a call, while other calls of its step are open. */
export interface CallResult {
  readonly run_id: string;
  readonly step_number: number;
  readonly call_index: number;
  /** `pending`: noted as begun, but certainly not entered; it has no result. */
  readonly state: 'pending' | 'succeeded' | 'failed' | 'unknown';
  readonly held_result: string | null;
  readonly duration_ms: number;
  readonly output?: CallOutput;
}

/**
 * Stores the results of calls on their rows until the message with all results of the step, and their outputs. A worker that takes the chunk
 * over reads them and does not repeat the calls. Ended calls stay unchanged. The batch counts the ended calls at once.
 * The caller holds the lease of the chunk (`holdLease`).
 * Locks: the rows of the calls → batch tallies. Index: primary keys.
 */
export async function commitCallResults(
  trx: Tx,
  results: readonly CallResult[],
  slot = tallySlot(),
): Promise<void> {
  if (results.length === 0) return;
  const payload = results.map(({ run_id, step_number, call_index, state, held_result, duration_ms }) => ({
    r: run_id,
    n: step_number,
    x: call_index,
    s: state,
    h: state === 'pending' || held_result === null ? null : toStorableText(held_result),
    d: state === 'pending' ? null : duration_ms,
  }));
  await writeCallOutputs(
    trx,
    results.flatMap(({ output, ...result }) =>
      output === undefined || result.state === 'pending' ? [] : [{ ...result, output }],
    ),
  );
  const { rows } = await sql<EndedCallCounts>`
    with d as materialized (
      select * from json_to_recordset(${JSON.stringify(payload)}::json)
        as d(r uuid, n int, x int, s text, h text, d int)),
    kept as (
      update tool_call c
         set state = d.s, held_result = d.h, duration_ms = d.d,
             started_at = case when d.s <> 'pending' then coalesce(c.started_at, app_now()) end,
             ended_at = case when d.s <> 'pending' then app_now() end
        from d
       where c.run_id = d.r and c.step_number = d.n and c.call_index = d.x and c.state in ('pending', 'running')
      returning c.run_id, c.project_id, c.state, 'pending' as was)
    select r.batch_id, k.project_id, ${ENDED_CALL_COUNTS}
      from kept k
     cross join lateral (select batch_id from run where id = k.run_id ${UNMERGED}) r
     where k.state <> 'pending' group by r.batch_id, k.project_id
  `.execute(trx);
  await addToTallies(trx, rows, slot);
}
