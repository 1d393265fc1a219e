import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';
import { ENDED_WELL, IN_FORCE } from '../../reads/cursor/span-conditions.ts';

/**
 * Lets the spans of runs that are about to be removed stand alone: each keeps the reason of its run's end, and is marked as
 * reverted if its changes are not in force. Spans of removed runs that no longer say anything are deleted: those of before a
 * rewind, and those that another span of a removed run replaces, once no kept span begins where they end. So the position of
 * every cursor stays, also when a later batch is reverted.
 * Index: primary keys, `cursor_span_by_agent`.
 */
export async function forgetCursorSpans(trx: Tx, runIds: readonly string[]): Promise<void> {
  const ids = sql`any(${uuidArray(runIds)}::uuid[])`;
  const marked = await sql`
    update cursor_span s
       set stop_reason = r.stop_reason,
           reverted_at = case when s.reverted_at is null and ${ENDED_WELL} and not ${IN_FORCE} then app_now() else s.reverted_at end
      from unnest(${uuidArray(runIds)}::uuid[]) as d(id)
     cross join lateral (select id, stop_reason from run where id = d.id ${UNMERGED}) r
     where s.run_id = d.id
  `.execute(trx);
  if (marked.numAffectedRows === 0n) return;
  await sql`
    delete from cursor_span d
     using (select distinct agent_id, name from cursor_span where run_id = ${ids}) t
     where d.agent_id = t.agent_id and d.name = t.name and d.stop_reason is not null
       and (exists (select from cursor_rewind w
                     where w.agent_id = d.agent_id and w.name = d.name and w.rewinds > d.rewinds)
            or (exists (select from cursor_span s
                         where s.agent_id = d.agent_id and s.name = d.name and s.rewinds = d.rewinds and s.reverted_at is null
                           and s.stop_reason in ('end_turn', 'tool_rule') and (s.to_seq, s.run_id) > (d.to_seq, d.run_id))
                and not exists (select from cursor_span o
                                 where o.agent_id = d.agent_id and o.name = d.name and o.rewinds = d.rewinds
                                   and o.stop_reason is null and o.from_seq > d.from_seq and o.from_seq <= d.to_seq)))
  `.execute(trx);
}
