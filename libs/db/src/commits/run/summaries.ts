import { toStorableText } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { lockConversations } from '../../locks/run/lock-conversations.ts';
import { uuidArray } from '../../uuid-array.ts';
import type { DecidedRun } from './decided-rows.ts';

/**
 * Counts the summaries among decided answers apart from their runs' step limit, before the runs move on. The next request
 * compiles the memory anew, because the calls that changed it may be hidden.
 */
export async function countSummaries(trx: Tx, decided: readonly DecidedRun[]): Promise<void> {
  const runIds = decided.flatMap(({ run, decision }) => (decision.summary === null ? [] : [run.id]));
  if (runIds.length === 0) return;
  await sql`
    update run set summary_steps = summary_steps + 1, prompt_number = null, prompt_attempt = null where id = any((select ${uuidArray(runIds)}::uuid[])::uuid[])
  `.execute(trx);
}

/**
 * Replaces messages by their summaries: later requests show the conversations from the message after.
 * Only the run that holds the conversation writes a summary. Costs nothing without a summary among `decided`.
 * Throws: an error, keeping nothing, for a summary that was written already.
 * Locks: the conversations in id order, including conversations of ended runs among `decided`, which the commit writes
 * next.
 */
export async function writeSummaries(trx: Tx, decided: readonly DecidedRun[]): Promise<void> {
  const summarised = decided.filter(({ decision }) => decision.summary !== null);
  if (summarised.length === 0) return;
  await lockConversations(
    trx,
    decided
      .filter(({ decision }) => decision.summary !== null || 'stop_reason' in decision.run)
      .map(({ run }) => run.conversation_id),
  );
  const payload = summarised.map(({ run, decision: { key, summary } }) => ({
    p: run.project_id,
    c: run.conversation_id,
    r: run.id,
    n: key.number,
    a: key.attempt,
    q: run.summarises_to_seq,
    t: toStorableText(summary ?? ''),
  }));
  const { numAffectedRows } = await sql`
    with d as materialized (
      select * from json_to_recordset(${JSON.stringify(payload)}::json)
        as d(p uuid, c uuid, r uuid, n int, a int, q int, t text)),
    made as (
      insert into conversation_summary (conversation_id, to_seq, project_id, hidden, summary, run_id, step_number)
      select d.c, d.q, d.p, coalesce(o.hidden, 0) + (
               select count(*) from message m
                where m.conversation_id = d.c and m.seq between s.context_from_seq and d.q and m.shown),
             d.t, d.r, d.n
        from d
        join step s on s.run_id = d.r and s.number = d.n and s.attempt = d.a
        left join conversation_summary o on o.conversation_id = d.c and o.to_seq = s.summary_to_seq)
    update conversation c set context_from_seq = d.q + 1, summary_to_seq = d.q
      from d where c.id = d.c and c.run_id = d.r
  `.execute(trx);
  if (Number(numAffectedRows ?? 0) !== summarised.length) {
    throw new Error(
      `Expected to write ${summarised.length} summaries, wrote ${String(numAffectedRows)}. Nothing was stored.`,
    );
  }
}
