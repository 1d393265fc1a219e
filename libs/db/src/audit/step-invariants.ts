import { sql } from 'kysely';
import { UNMERGED } from '../fragments.ts';
import { inParts, type Invariant } from './invariant.ts';

/** The relations of steps, messages and tool calls to their runs: hot tables without foreign keys. */
export const STEP_INVARIANTS: readonly Invariant[] = [
  {
    id: 'I2',
    name: 'at most one answer is applied for a step number',
    sql: sql`
      select run_id, number, count(*)::int as applied
        from step where applied_at is not null group by run_id, number having count(*) > 1`,
  },
  {
    id: 'I3',
    name: 'a run has no gap in its steps: all steps before step_number are done, and no step has a higher number',
    sql: sql`
      select r.id as run_id, r.state, r.step_number, s.applied, s.last
        from run r
       cross join lateral (
         select count(*) filter (where number < r.step_number and state = 'done')::int as applied, max(number) as last
           from step where run_id = r.id) s
       where s.applied <> r.step_number - 1 or s.last > r.step_number
          or (r.state = 'completed' and s.last is distinct from r.step_number)`,
  },
  {
    id: 'I4',
    name: 'the messages of a conversation are numbered from 1 without a gap',
    sql: sql`
      select conversation_id, min(seq) as first, max(seq) as last, count(*)::int as messages
        from message group by conversation_id having min(seq) <> 1 or max(seq) <> count(*)`,
  },
  {
    id: 'I4b',
    name: 'a run owns the messages from its first to its last, and no other messages',
    sql: sql`
      select r.id as run_id, r.first_seq, r.last_seq, o.first, o.last, o.messages
        from run r
       cross join lateral (
         select min(seq) as first, max(seq) as last, count(*)::int as messages
           from message m where m.conversation_id = r.conversation_id and m.run_id = r.id
            and m.seq between coalesce(r.first_seq, 0) and greatest(r.last_seq, r.first_seq)) o
       where r.started_at is not null and o.messages <> r.last_seq - r.first_seq + 1
      union all
      select m.run_id, r.first_seq, r.last_seq, m.seq, m.seq, 1
        from message m join run r on r.id = m.run_id
       where m.conversation_id <> r.conversation_id or (m.seq between r.first_seq and r.last_seq) is not true`,
  },
  {
    id: 'I5',
    name: 'the next user message holds one result per call of the step, in order',
    sql: sql`
      with asked as (
        select c.run_id, c.step_number, array_agg(c.tool_use_id order by c.call_index) as ids,
               bool_or(c.state in ('pending', 'running')) as open, bool_or(c.held_result is not null) as held
          from tool_call c
          join step s on s.run_id = c.run_id and s.number = c.step_number and s.state = 'done'
         group by c.run_id, c.step_number)
      select a.run_id, a.step_number, a.ids as asked, a.open, a.held, g.ids as answered
        from asked a
        join run r on r.id = a.run_id
        left join lateral (
          select m.content, json_typeof(m.content) = 'string' as wrapped
            from message m
           where m.conversation_id = r.conversation_id and m.run_id = a.run_id and m.step_number = a.step_number
             -- Requests no longer show a run that failed because of its own content.
             and m.role = 'user'
             and (m.shown or r.stop_reason in ('context_overflow', 'invalid_request', 'poison')) ${UNMERGED}) u on true
        left join lateral (
          select array_agg(e.value->>'tool_use_id' order by e.place) as ids
            from json_array_elements(case when not u.wrapped then u.content end) with ordinality e(value, place)
           where e.value->>'type' = 'tool_result') g on true
       where a.open or a.held or u.content is null
          -- JSON functions cannot read wrapped content: check only that it exists.
          or (not u.wrapped and g.ids is distinct from a.ids)`,
  },
  {
    id: 'I5b',
    name: 'an assistant message that requests show has as many calls as its step has rows of calls',
    sql: sql`
      select m.run_id, m.step_number, made.calls as made, known.calls as known
        from message m join run r on r.id = m.run_id
       cross join lateral (
         select count(*)::int as calls
           from json_array_elements(case when json_typeof(m.content) = 'array' then m.content end) e(value)
          where e.value->>'type' = 'tool_use' and json_typeof(e.value->'id') = 'string'
            and json_typeof(e.value->'name') = 'string') made
       cross join lateral (
         select count(*)::int as calls from tool_call c where c.run_id = m.run_id and c.step_number = m.step_number) known
       where m.role = 'assistant' and m.run_id is not null and m.step_number is not null and m.shown
         and json_typeof(m.content) = 'array' and made.calls <> known.calls`,
  },
  {
    id: 'I5c',
    name: 'requests start after the last summarised message, and every summary step has a summary',
    ...inParts([
      {
        reads: 'conversations',
        sql: sql`
      select 'shown summary' as what, c.id, c.summary_to_seq as to_seq
        from conversation c
       where c.summary_to_seq is not null and (c.summary_to_seq <> c.context_from_seq - 1
          or not exists (select 1 from conversation_summary o where o.conversation_id = c.id and o.to_seq = c.summary_to_seq))
      union all
      select 'summary without its step', o.conversation_id, o.to_seq
        from conversation_summary o
       where not exists (
         select 1 from step s join run r on r.id = s.run_id
          where s.run_id = o.run_id and s.number = o.step_number and s.applied_at is not null and s.is_summary
            and s.context_to_seq = o.to_seq and r.conversation_id = o.conversation_id ${UNMERGED})
         and not exists (select 1 from forgotten_run f where f.run_id = o.run_id)`,
      },
      {
        reads: 'work',
        sql: sql`
      select 'step without its summary' as what, s.run_id as id, s.context_to_seq as to_seq
        from step s
       where s.is_summary and s.applied_at is not null and not exists (
         select 1 from conversation_summary o where o.run_id = s.run_id and o.step_number = s.number)
      union all
      select 'summary that a request shows', s.run_id, s.summary_to_seq
        from step s join run r on r.id = s.run_id
       where s.summary_to_seq is not null and not exists (
         select 1 from conversation_summary o where o.conversation_id = r.conversation_id and o.to_seq = s.summary_to_seq)
      union all
      select 'steps on top of max_steps', r.id, r.summary_steps
        from run r
       where r.summary_steps <> (
         select count(*) from step s where s.run_id = r.id and s.is_summary and s.applied_at is not null)
      union all
      select 'step under way', r.id, r.summarises_to_seq
        from run r join step s on s.run_id = r.id and s.number = r.step_number and s.attempt = r.attempt
       where s.state = 'sealed' and r.summarises_to_seq is distinct from case when s.is_summary then s.context_to_seq end`,
      },
    ]),
  },
  {
    id: 'I10',
    name: 'no step is sealed after the cancel request of its run or batch',
    sql: sql`
      select s.run_id, s.number, s.attempt, s.sealed_at, b.cancel_requested_at
        from batch b join run r on r.batch_id = b.id join step s on s.run_id = r.id
       where b.cancel_requested_at is not null and s.sealed_at > b.cancel_requested_at
      union all
      select s.run_id, s.number, s.attempt, s.sealed_at, r.cancel_requested_at
        from run r join step s on s.run_id = r.id
       where r.cancel_requested_at is not null and s.sealed_at > r.cancel_requested_at`,
  },
  {
    id: 'I21',
    name: 'every run, step, message and call has its parents, and every chunk its runs',
    ...inParts([
      {
        reads: 'work',
        sql: sql`
      select 'run' as what, r.id as id, null::int as place, p.lacks
        from run r
       cross join lateral (values
         ('batch', exists (select 1 from batch b where b.id = r.batch_id and b.project_id = r.project_id)
            or exists (select 1 from forgotten_batch f where f.id = r.batch_id and f.project_id = r.project_id and f.removed_at is null)),
         ('agent', exists (select 1 from agent a where a.id = r.agent_id and a.project_id = r.project_id)),
         ('conversation', exists (select 1 from conversation c where c.id = r.conversation_id and c.project_id = r.project_id)),
         ('definition', exists (select 1 from definition d where d.id = r.definition_id and d.project_id = r.project_id))) p(lacks, is_there)
       where not p.is_there`,
      },
      {
        reads: 'keys',
        sql: sql`
      select 'step' as what, s.run_id as id, s.number as place, 'run' as lacks
        from step s where not exists (select 1 from run r where r.id = s.run_id)
      union all
      select 'step', s.run_id, s.number, 'provider_batch'
        from step s where not exists (select 1 from provider_batch p where p.id = s.provider_batch_id)
      union all
      select 'tool_call', c.run_id, c.step_number, 'applied step'
        from tool_call c
       where not exists (select 1 from step s where s.run_id = c.run_id and s.number = c.step_number and s.applied_at is not null)
      union all
      select 'tool_call_output', o.run_id, o.step_number, 'ended tool_call'
        from tool_call_output o
       where not exists (
         select 1 from tool_call c
          where c.run_id = o.run_id and c.step_number = o.step_number and c.call_index = o.call_index and c.ended_at is not null)`,
      },
      {
        reads: 'conversations',
        sql: sql`
      select 'message' as what, m.conversation_id as id, m.seq as place, 'conversation' as lacks
        from message m where not exists (select 1 from conversation c where c.id = m.conversation_id)
      union all
      select 'message', m.conversation_id, m.seq, 'run'
        from message m where m.run_id is not null and not exists (select 1 from run r where r.id = m.run_id ${UNMERGED})
         and not exists (select 1 from forgotten_run f where f.run_id = m.run_id)`,
      },
      {
        reads: 'all, weekly',
        sql: sql`
      select * from (
      with batches as (select id from batch union all select id from forgotten_batch where removed_at is null)
      select 'held_change' as what, h.draft_id as id, null::int as place, 'batch' as lacks
        from held_change h where h.batch_id not in (select id from batches)
      union all
      select 'held_change', h.draft_id, null, 'block'
        from held_change h where not exists (select 1 from block b where b.id = h.block_id)
      union all
      select 'block', b.id, null, 'batch' from block b where b.held_by_batch_id is not null and b.held_by_batch_id not in (select id from batches)
      union all
      select 'passage', p.id, null, 'batch' from passage p where p.held_by_batch_id is not null and p.held_by_batch_id not in (select id from batches)
      union all
      select 'idempotency_key', k.batch_id, null, 'batch'
        from idempotency_key k
       where k.batch_id is not null and not exists (select 1 from batch b where b.id = k.batch_id union all select 1 from forgotten_batch f where f.id = k.batch_id)
      union all
      select 'tick', t.batch_id, null, 'batch'
        from tick t
       where t.batch_id is not null and not exists (
         select 1 from batch b where b.id = t.batch_id union all select 1 from forgotten_batch f where f.id = t.batch_id)) named`,
      },
      {
        reads: 'all',
        sql: sql`
      select 'run_chunk' as what, c.id, null::int as place, 'run' as lacks
        from run_chunk c where exists (
          select 1 from unnest(c.run_ids) as u(run_id) where not exists (select 1 from run r where r.id = u.run_id))`,
      },
    ]),
  },
  {
    id: 'I27',
    name: 'a request shows the memory of a step of its run; an open run that has one names it',
    sql: sql`
      select 'step' as kind, s.run_id, s.number, s.attempt
        from step s
       where s.prompt_number is not null and not exists (
         select 1 from step p where p.run_id = s.run_id and p.number = s.prompt_number and p.attempt = s.prompt_attempt)
      union all
      select 'run', r.id, r.prompt_number, r.prompt_attempt
        from run r
       where r.ended_at is null and r.prompt_number is not null and not exists (
         select 1 from step p where p.run_id = r.id and p.number = r.prompt_number and p.attempt = r.prompt_attempt)`,
  },
  {
    id: 'I27b',
    name: 'a notice of changed memory is a message of its run',
    sql: sql`
      select n.run_id, n.seq
        from memory_notice n join run r on r.id = n.run_id
       where not exists (
         select 1 from message m
          where m.conversation_id = r.conversation_id and m.seq = n.seq and m.run_id = n.run_id and m.role = 'user')`,
  },
];
