import { sql } from 'kysely';
import { UNMERGED } from '../fragments.ts';
import { ENDED_WELL, IN_FORCE, RUN_OF_SPAN } from '../reads/cursor/span-conditions.ts';
import type { Invariant } from './invariant.ts';

/** The spans of cursors and what their runs did. */
export const CURSOR_INVARIANTS: readonly Invariant[] = [
  {
    id: 'I25',
    name: 'no message is shown to two completed runs of a cursor whose changes are in force',
    reads: 'cursors',
    sql: sql`
      select * from (
        select s.agent_id, s.name, s.run_id, s.from_seq, s.to_seq,
               max(s.to_seq) over (partition by s.agent_id, s.name, s.rewinds order by s.from_seq, s.to_seq, s.run_id
                                   rows between unbounded preceding and 1 preceding) as handled_seq
          from cursor_span s cross join lateral (${RUN_OF_SPAN}) r
         where s.reverted_at is null and ${ENDED_WELL} and ${IN_FORCE}) counted
       where from_seq < handled_seq`,
  },
  {
    id: 'I25b',
    name: 'a span of a cursor begins where the position was, so that no message is skipped',
    reads: 'cursors',
    sql: sql`
      select o.agent_id, o.name, o.run_id, o.from_seq, o.to_seq
        from cursor_span o join run q on q.id = o.run_id
        join agent a on a.id = o.agent_id join conversation c on c.id = a.conversation_id
        left join cursor_rewind w on w.agent_id = o.agent_id and w.name = o.name
       -- The place of an earlier rewind is not kept.
       where o.rewinds = coalesce(w.rewinds, 0) and o.from_seq > greatest(w.to_seq, c.reset_seq, 0)
         and not exists (
           select from cursor_span s cross join lateral (${RUN_OF_SPAN}) r
            where s.agent_id = o.agent_id and s.name = o.name and s.rewinds = o.rewinds
              and s.to_seq >= o.from_seq and s.from_seq < o.from_seq
              and (${ENDED_WELL} and (s.reverted_at is not null or ${IN_FORCE})
                   -- A part may begin where an open part of its batch ends.
                   or s.batch_id = o.batch_id
                      and (${ENDED_WELL} or (q.stop_reason in ('end_turn', 'tool_rule')) is not true))
           ${UNMERGED})`,
  },
  {
    id: 'I25c',
    name: 'a span of a cursor names an isolated run of its agent and batch, and messages of the agent',
    reads: 'cursors',
    sql: sql`
      select s.run_id, s.batch_id, s.agent_id, s.name, s.to_seq, r.id is not null as has_run, b.id is not null as has_batch
        from cursor_span s
        left join run r on r.id = s.run_id and r.batch_id = s.batch_id and r.agent_id = s.agent_id
        left join (select id from batch union all select id from forgotten_batch) b on b.id = s.batch_id
        left join agent a on a.id = s.agent_id
       where (r.id is null and not (s.stop_reason is not null and exists (select from forgotten_batch f where f.id = s.batch_id)))
          or (r.id is not null and s.stop_reason is not null)
          or b.id is null or a.id is null or r.conversation_id = a.conversation_id
          or not exists (select from message m where m.conversation_id = a.conversation_id and m.seq >= s.top_seq)
      union all
      select null, null, s.agent_id, s.name, s.to_seq, null, null
        from cursor_span s left join cursor_rewind w on w.agent_id = s.agent_id and w.name = s.name
       where s.rewinds > coalesce(w.rewinds, 0)`,
  },
];
