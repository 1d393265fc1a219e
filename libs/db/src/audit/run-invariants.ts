import { sql } from 'kysely';
import { UNMERGED } from '../fragments.ts';
import { inParts, type Invariant } from './invariant.ts';

/** The relations of batches, runs and conversations. */
export const RUN_INVARIANTS: readonly Invariant[] = [
  {
    id: 'I1',
    name: 'a batch has as many runs as it was accepted with, and an ended one has none open',
    sql: sql`
      select b.id as batch_id, b.state, b.accepted, count(r.id)::int as runs, count(r.id) filter (where r.ended_at is null)::int as open
        from batch b left join run r on r.batch_id = b.id
       group by b.id, b.state, b.accepted, b.completed_at
      having b.accepted <> count(r.id) or (b.completed_at is not null and count(r.id) filter (where r.ended_at is null) > 0)`,
  },
  {
    id: 'I1b',
    name: 'each agent of an accepted fleet has a run or a reason, and the counts of skipped agents are right',
    sql: sql`
      select b.id as batch_id, b.agents_taken, c.agents, c.skipped, c.lost, counted.skipped as counted
        from batch b
       cross join lateral (
         select count(*)::int as agents, count(a.skip_reason)::int as skipped,
                count(*) filter (where a.ordinal < b.agents_taken and (a.skip_reason is null) <> exists (
                  select from run r where r.batch_id = b.id and r.agent_id = a.agent_id))::int as lost
           from batch_agent a where a.batch_id = b.id) c
       cross join lateral (
         select coalesce(sum(e.value::int), 0)::int as skipped from json_each_text(b.skipped) e) counted
       where b.source is not null and b.source ->> 'kind' is distinct from 'lines' and b.retry_of is null
         and (c.lost > 0 or c.skipped <> counted.skipped
              or (b.agents_taken <> c.agents and b.state not in ('receiving', 'cancelling', 'cancelled')))
      union all
      select a.batch_id, null, null, null, null, null
        from batch_agent a
       where not exists (select from batch b where b.id = a.batch_id and b.project_id = a.project_id and b.source is not null
                         union all select from forgotten_batch f where f.id = a.batch_id and f.removed_at is null)
          or not exists (select from agent g where g.id = a.agent_id and g.project_id = a.project_id)`,
  },
  {
    id: 'I1c',
    name: 'each line of a received upload has a run, a reason, or waits in the stage in order; no other line is staged',
    sql: sql`
      select b.id as batch_id, b.state, b.total, b.accepted, b.agents_taken, s.staged, s.first, k.skipped
        from batch b
       cross join lateral (
         select count(*)::int as staged, min(l.ordinal) as first, max(l.ordinal) as last
           from staged_line l where l.batch_id = b.id) s
       cross join lateral (
         select count(*)::int as rows, count(a.skip_reason)::int as skipped,
                coalesce((select sum(e.value::int) from json_each_text(b.skipped) e), 0)::int as counted
           from batch_agent a where a.batch_id = b.id) k
       where b.source ->> 'kind' = 'lines'
         and (b.agents_taken <> b.accepted + k.skipped or k.rows <> k.skipped or k.counted <> k.skipped
              or (b.state = 'receiving' and s.staged <> b.total - b.accepted)
              or (b.state not in ('receiving', 'cancelling') and s.staged > 0)
              or (s.staged > 0 and (s.first < b.agents_taken or s.last - s.first + 1 <> s.staged)))
      union all
      select l.batch_id, null, null, null, null, count(*)::int, min(l.ordinal), null
        from staged_line l
       where not exists (select from upload u where u.batch_id = l.batch_id and u.project_id = l.project_id)
         and not exists (select from batch b
                          where b.id = l.batch_id and b.project_id = l.project_id and b.source ->> 'kind' = 'lines')
       group by l.batch_id`,
  },
  {
    id: 'I13',
    name: 'nothing happens to a run or batch after its end',
    sql: sql`
      select 'step sealed' as what, s.run_id as id, s.sealed_at as at, r.ended_at
        from step s join run r on r.id = s.run_id where s.sealed_at > r.ended_at
      union all
      select 'answer applied', s.run_id, s.applied_at, r.ended_at
        from step s join run r on r.id = s.run_id where s.applied_at > r.ended_at
      union all
      select 'message written', m.run_id, m.created_at, r.ended_at
        from message m join run r on r.id = m.run_id where m.created_at > r.ended_at
      union all
      select 'call ended', c.run_id, c.ended_at, r.ended_at
        from tool_call c join run r on r.id = c.run_id where c.ended_at > r.ended_at
      union all
      select 'run ended', r.id, r.ended_at, b.completed_at
        from run r join batch b on b.id = r.batch_id where r.ended_at > b.completed_at`,
  },
  {
    id: 'I14',
    name: 'a run’s steps are in states that its own state allows',
    sql: sql`
      select r.id as run_id, r.state, r.step_number, r.attempt, s.number, s.attempt as step_attempt, s.state as step_state
        from run r join step s on s.run_id = r.id
       where (s.state = 'sealed' and r.state <> 'in_flight')
          or (s.state = 'answered' and r.state not in ('acting', 'requires_action'))
          or (s.state in ('sealed', 'answered') and (s.number <> r.step_number or s.attempt <> r.attempt))
      union all
      select r.id, r.state, r.step_number, r.attempt, null, null, null
        from run r
       where r.state in ('in_flight', 'acting', 'requires_action')
         and not exists (select 1 from step s
                          where s.run_id = r.id and s.number = r.step_number and s.attempt = r.attempt
                            and s.state = case r.state when 'in_flight' then 'sealed' else 'answered' end)`,
  },
  {
    id: 'I14b',
    name: 'a conversation is held by the one run that has started in it and not ended',
    ...inParts([
      {
        reads: 'work',
        sql: sql`
      select r.id as run_id, r.state, r.conversation_id, c.run_id as holder
        from run r left join conversation c on c.id = r.conversation_id
       where r.started_at is not null and r.ended_at is null and c.run_id is distinct from r.id`,
      },
      {
        reads: 'conversations',
        sql: sql`
      select c.run_id, r.state, c.id as conversation_id, c.run_id as holder
        from conversation c
        left join lateral (select * from run where id = c.run_id ${UNMERGED}) r on true
       where c.run_id is not null and (r.id is null or r.started_at is null or r.ended_at is not null or r.conversation_id <> c.id)`,
      },
    ]),
  },
  {
    id: 'I14c',
    name: 'a run that waits for its conversation has queued input, and no other run has',
    sql: sql`
      select r.id as run_id, r.state, q.run_id is not null as has_input
        from run r full join queued_input q on q.run_id = r.id
       where (r.state = 'queued') is distinct from (q.run_id is not null)`,
  },
  {
    id: 'I14d',
    name: 'appended messages wait only while a run holds their conversation, numbered from 1 without a gap',
    reads: 'all',
    sql: sql`
      select w.conversation_id, c.run_id as holder, count(*)::int as waiting, min(w.place) as first, max(w.place) as last
        from waiting_message w left join conversation c on c.id = w.conversation_id
       group by w.conversation_id, c.run_id
      having c.run_id is null or min(w.place) <> 1 or max(w.place) <> count(*)`,
  },
  {
    id: 'I21a',
    name: 'a waiting run can be found: a ready run is in a chunk, or waits for room or a pilot, an acting run is in exactly one chunk',
    sql: sql`
      with named as (
        select kind, run_id, count(*)::int as chunks from run_chunk, unnest(run_ids) as u(run_id) group by kind, run_id)
      select r.id as run_id, r.state, coalesce(n.chunks, 0) as chunks
        from run r join batch b on b.id = r.batch_id
        left join named n on n.run_id = r.id and n.kind = case r.state when 'ready' then 'ready' else 'tools' end
       -- The sweep ends runs past their deadline.
       where (r.state = 'ready' and b.state = 'running' and n.chunks is null and coalesce(r.deadline_at > app_now(), true)
              and (b.pilot_state is distinct from 'running' or r.ordinal = any(b.pilot_ordinals))
              and not exists (select 1 from batch_budget g where g.batch_id = b.id and g.room <> 'open'))
          or (r.state = 'acting' and coalesce(n.chunks, 0) <> 1)`,
  },
  {
    id: 'I21b',
    name: 'a run waits for its caller exactly while a call of its step has no answer, and is in no chunk then',
    sql: sql`
      with named as (select u.run_id, count(*)::int as chunks from run_chunk, unnest(run_ids) as u(run_id) group by u.run_id)
      select r.id as run_id, r.state, o.open, coalesce(k.chunks, 0) as chunks
        from run r
       cross join lateral (
         select count(*)::int as open from tool_call c
          where c.run_id = r.id and c.step_number = r.step_number and c.awaits is not null and c.verdict is null
            and c.state = 'pending') o
        left join named k on k.run_id = r.id
        join batch b on b.id = r.batch_id
       where r.state in ('requires_action', 'acting')
         and ((r.state = 'requires_action' and (o.open = 0 or k.chunks > 0))
          -- For a run past its deadline or being cancelled, the flow that ends the run answers its calls.
          or (r.state = 'acting' and o.open > 0 and b.state <> 'cancelling' and coalesce(r.overdue_from > app_now(), true)))`,
  },
  {
    id: 'I19',
    name: 'no run takes more steps than it may, except summaries',
    sql: sql`
      select r.id as run_id, r.max_steps, r.summary_steps, max(s.number) as steps
        from run r join step s on s.run_id = r.id
       group by r.id, r.max_steps, r.summary_steps having max(s.number) > r.max_steps + r.summary_steps`,
  },
];
