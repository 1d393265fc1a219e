import { toStorableText, type TakenAnswer } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import type { RunToDecide } from '../../reads/run/runs-to-decide.ts';
import { addToTallies, tallySlot } from '../batch/tallies.ts';
import { putChunk } from './run-chunks.ts';

/** The caller's answer to a call of a run's present step. */
export interface NewCallerAnswer extends TakenAnswer {
  readonly call_index: number;
  readonly answer_sha256: string;
}

/**
 * Writes the caller's answers to calls of a run in `requires_action`, whose lock the caller holds.
 * After the last awaited answer the run becomes `acting`, in a chunk of its own; returns whether it did.
 * Throws: an error, keeping nothing, for a second answer to a call.
 */
export async function commitCallerAnswers(
  trx: Tx,
  run: RunToDecide,
  answers: readonly NewCallerAnswer[],
  slot = tallySlot(),
): Promise<boolean> {
  const payload = answers.map(({ call_index, state, result, verdict, answer_sha256 }) => ({
    x: call_index,
    s: state,
    h: result === null ? null : toStorableText(result),
    v: verdict,
    a: answer_sha256,
  }));
  const { numAffectedRows } = await sql`
    update tool_call c
       set state = d.s, held_result = d.h, verdict = d.v, answer_sha256 = d.a,
           started_at = case when d.s <> 'pending' then app_now() end,
           ended_at = case when d.s <> 'pending' then app_now() end,
           duration_ms = case when d.s <> 'pending' then 0 end
      from json_to_recordset(${JSON.stringify(payload)}::json) as d(x int, s text, h text, v text, a text)
     where c.run_id = ${run.id}::uuid and c.step_number = ${run.step_number} and c.call_index = d.x
       and c.state = 'pending' and c.awaits is not null and c.verdict is null
  `.execute(trx);
  if (Number(numAffectedRows ?? 0) !== answers.length) {
    throw new Error(`Run ${run.id} got an answer to a call that awaits none. Nothing was stored.`);
  }
  const { rows } = await sql`
    update run r set state = 'acting'
     where r.id = ${run.id}::uuid and r.state = 'requires_action' and not exists (
       select 1 from tool_call c
        where c.run_id = r.id and c.step_number = r.step_number and c.awaits is not null and c.verdict is null)
    returning 1
  `.execute(trx);
  const { batch_id, project_id } = run;
  const isActing = rows.length > 0;
  if (isActing) await putChunk(trx, { project: project_id, kind: 'tools', runIds: [run.id], delayMs: 0 });
  const ended_tool_calls = answers.filter(({ state }) => state !== 'pending').length;
  const failed_tool_calls = answers.filter(({ state }) => state === 'failed').length;
  const counted = { batch_id, project_id, ended_tool_calls, failed_tool_calls };
  if (isActing || ended_tool_calls > 0)
    await addToTallies(trx, [{ ...counted, requires_action: isActing ? -1 : 0 }], slot);
  return isActing;
}
