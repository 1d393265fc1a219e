import { sql, type RawBuilder } from 'kysely';
import { UNMERGED } from '../fragments.ts';
import { inParts, type Invariant } from './invariant.ts';

/** Memory, schedules, callbacks, idempotency keys and projects. */
export const OTHER_INVARIANTS: readonly Invariant[] = [
  {
    id: 'I16',
    name: 'the revisions of a block are numbered from 1 without a gap, and its head is the last',
    reads: 'blocks',
    sql: sql`
      select b.id as block_id, b.head_revision, min(r.revision) as first, max(r.revision) as last, count(r.revision)::int as revisions
        from block b left join block_revision r on r.block_id = b.id
       group by b.id, b.head_revision
      having min(r.revision) is distinct from 1 or max(r.revision) <> count(r.revision) or max(r.revision) <> b.head_revision`,
  },
  {
    id: 'I16b',
    name: 'every revision that a request shows is kept',
    reads: 'keys',
    sql: sql`
      select s.run_id, s.number, s.attempt, u.block_id, u.revision
        from step s cross join lateral unnest(s.block_ids, s.block_revisions) as u(block_id, revision)
       where not exists (select 1 from block_revision r where r.block_id = u.block_id and r.revision = u.revision ${UNMERGED})`,
  },
  {
    id: 'I16c',
    name: 'a revision written by a run names a memory call that the run made',
    sql: sql`
      select r.block_id, r.revision, r.run_id, r.step_number, r.tool_use_id
        from block_revision r
       where r.run_id is not null and not exists (
         select 1 from tool_call c join run on run.id = c.run_id
          where c.run_id = r.run_id and c.step_number = r.step_number and c.tool_use_id = r.tool_use_id and c.kind = 'memory'
            and run.batch_id = r.batch_id)
         and not exists (select from forgotten_batch f where f.id = r.batch_id)`,
  },
  {
    id: 'I16d',
    name: 'a block that a run made, gave up or renamed names a memory call that the run made',
    sql: sql`
      select e.place, e.kind, e.block_id, e.run_id, e.step_number, e.tool_use_id
        from block_event e
       where not exists (
         select 1 from tool_call c join run on run.id = c.run_id
          where c.run_id = e.run_id and c.step_number = e.step_number and c.tool_use_id = e.tool_use_id and c.kind = 'memory'
            and run.batch_id = e.batch_id and run.agent_id = e.agent_id)
         and not exists (select from forgotten_batch f where f.id = e.batch_id)`,
  },
  {
    id: 'I16e',
    name: 'no agent has a block that is deleted',
    reads: 'all, weekly',
    sql: sql`
      select k.agent_id, k.block_id, b.deleted_at
        from agent_block k join block b on b.id = k.block_id
       where b.deleted_at is not null`,
  },
  {
    id: 'I16f',
    name: 'an edited change is marked, its edit is the last text of its draft, and a block with an accepted edit has that text',
    sql: sql`
      select h.batch_id, h.draft_id as block_id, h.edited_at, e.revision
        from held_change h
        left join lateral (
          select max(r.revision) as revision from block_revision r
           where r.block_id = h.draft_id and r.batch_id = h.batch_id and r.resolution = 'edited') e on true
       where (h.edited_at is null) <> (e.revision is null)
          or exists (select from block_revision l
                      where l.block_id = h.draft_id and l.batch_id = h.batch_id and l.revision > e.revision)
      union all
      select r.batch_id, r.block_id, null, r.revision
        from block_revision r
       where r.resolution = 'edited' and not exists (
         select from held_change h
          where h.batch_id = r.batch_id and h.edited_at is not null and (h.draft_id = r.block_id or (
            h.block_id = r.block_id and h.state = 'accepted' and exists (
              select from block_revision n
               where n.block_id = h.draft_id and n.batch_id = h.batch_id and n.resolution = 'edited' and n.value = r.value))))
         and not exists (select from forgotten_batch f where f.id = r.batch_id)`,
  },
  {
    id: 'I17',
    name: 'a schedule starts one batch per due moment, each batch for one moment, none ahead of time',
    reads: 'all',
    sql: sql`
      select 'tick ahead of its schedule' as what, t.schedule_id as id, t.due_at
        from tick t join schedule s on s.id = t.schedule_id where not t.is_manual and t.due_at >= s.tick_due_at
      union all
      select 'batch without its tick', b.id, b.tick_due_at
        from batch b left join tick t on t.batch_id = b.id
       where b.schedule_id is not null and (t.schedule_id, t.due_at) is distinct from (b.schedule_id, b.tick_due_at)`,
  },
  {
    id: 'I18',
    name: 'a callback is sent for an ended batch that asked for one, and its delivery is due until it was tried',
    reads: 'all',
    sql: sql`
      select id as batch_id, state, callback_url is not null as asked_for, callback_sent_at, callback_attempts, next_due_at
        from batch
       where (callback_attempts > 0 and (callback_url is null or completed_at is null))
          or (callback_sent_at is not null and callback_attempts = 0)
          or (completed_at is not null and callback_url is not null and callback_attempts = 0 and next_due_at is null)`,
  },
  {
    id: 'I20',
    name: 'related rows belong to one project',
    ...inParts([
      {
        reads: 'work',
        sql: sql`
      select 'run of batch' as what, r.id from run r join batch b on b.id = r.batch_id where r.project_id <> b.project_id
      union all
      select 'run of agent', r.id from run r join agent a on a.id = r.agent_id where r.project_id <> a.project_id
      union all
      select 'run of conversation', r.id from run r join conversation c on c.id = r.conversation_id where r.project_id <> c.project_id
      union all
      select 'run of definition', r.id from run r join definition d on d.id = r.definition_id where r.project_id <> d.project_id
      union all
      select 'queued_input', q.run_id from queued_input q join run r on r.id = q.run_id where r.project_id <> q.project_id
      union all
      select 'unstarted_input', q.run_id from unstarted_input q join run r on r.id = q.run_id where r.project_id <> q.project_id
      union all
      select 'batch_tally', t.batch_id from batch_tally t join batch b on b.id = t.batch_id where t.project_id <> b.project_id
      union all
      select 'step', s.run_id from step s join run r on r.id = s.run_id where s.project_id <> r.project_id
      union all
      select 'step of provider_batch', s.run_id
        from step s join provider_batch p on p.id = s.provider_batch_id where s.project_id <> p.project_id
      union all
      select 'message', m.conversation_id
        from message m join conversation c on c.id = m.conversation_id where m.project_id <> c.project_id
      union all
      select 'tool_call', c.run_id from tool_call c join run r on r.id = c.run_id where c.project_id <> r.project_id
      union all
      select 'tool_call_output', o.run_id from tool_call_output o join run r on r.id = o.run_id where o.project_id <> r.project_id
      union all
      select 'block_event', e.block_id from block_event e join block b on b.id = e.block_id where e.project_id <> b.project_id
      union all
      select 'block_revision', r.block_id from block_revision r join block b on b.id = r.block_id where r.project_id <> b.project_id`,
      },
      {
        reads: 'all',
        sql: sql`
      select 'run_chunk' as what, c.id
        from run_chunk c cross join lateral unnest(c.run_ids) as u(run_id) join run r on r.id = u.run_id
       where c.project_id <> r.project_id
      union all
      select 'result_line', l.provider_batch_id
        from result_line l join provider_batch p on p.id = l.provider_batch_id where l.project_id <> p.project_id
      union all
      select 'doubted_submission', d.provider_batch_id
        from doubted_submission d join provider_batch p on p.id = d.provider_batch_id where d.project_id <> p.project_id`,
      },
      {
        reads: 'all, weekly',
        sql: sql`
      select 'agent' as what, a.id from agent a join conversation c on c.id = a.conversation_id where a.project_id <> c.project_id
      union all
      select 'agent_block', ab.agent_id from agent_block ab join agent a on a.id = ab.agent_id join block b on b.id = ab.block_id
       where ab.project_id <> a.project_id or ab.project_id <> b.project_id
      union all
      select 'agent_tool', k.agent_id from agent_tool k join agent a on a.id = k.agent_id join tool t on t.id = k.tool_id
       where k.project_id <> a.project_id or k.project_id <> t.project_id
      union all
      select 'passage', p.id from passage p join agent a on a.id = p.agent_id where p.project_id <> a.project_id
      union all
      select 'held_change', h.draft_id from held_change h join batch b on b.id = h.batch_id where h.project_id <> b.project_id
      union all
      select 'idempotency_key', k.batch_id from idempotency_key k join batch b on b.id = k.batch_id where k.project_id <> b.project_id
      union all
      select 'cursor_span', s.run_id from cursor_span s join run r on r.id = s.run_id where s.project_id <> r.project_id
      union all
      select 'cursor_rewind', w.agent_id from cursor_rewind w join agent a on a.id = w.agent_id where w.project_id <> a.project_id
      union all
      select 'tick', t.schedule_id from tick t join schedule s on s.id = t.schedule_id left join batch b on b.id = t.batch_id
       where t.project_id <> s.project_id or t.project_id <> b.project_id`,
      },
    ]),
  },
  {
    id: 'I22',
    name: 'an idempotency key stands for one request, and a batch for one key',
    reads: 'all',
    sql: sql`
      select 'key' as what, key, count(*)::int as rows from idempotency_key group by project_id, key having count(*) > 1
      union all
      select 'batch', batch_id::text, count(*)::int from idempotency_key where batch_id is not null group by batch_id having count(*) > 1`,
  },
];

/**
 * Returns the invariant that finds stalled rows. It holds while workers run, and fails once all are stopped.
 * `now` is the snapshot's time.
 */
export function livenessInvariant(stalledAfterMs: number, now: RawBuilder<Date> = sql`app_now()`): Invariant {
  const limit = sql`(select ${now} - ${stalledAfterMs} * interval '1 millisecond')`;
  return {
    id: 'I12',
    name: 'no row is due and unheld for long, and no row that only the sweep finds waits for long',
    reads: 'open work',
    sql: sql`
      -- For an ended batch, its callback is due.
      select 'batch' as what, id, state, next_due_at, lease_until from batch
       where next_due_at < ${limit} and lease_until < ${limit}
      union all
      select 'provider_batch', p.id, p.state, p.next_due_at, p.lease_until
        from provider_batch p join credential c on c.name = p.credential
       where p.next_due_at < ${limit} and p.lease_until < ${limit}
         -- A provider batch of a paused credential waits as long as the pause.
         and (p.state <> 'building' or coalesce(c.paused_until, '-infinity') < ${limit})
      union all
      select 'run_chunk', id, kind, next_due_at, lease_until from run_chunk
       where next_due_at < ${limit} and lease_until < ${limit}
      union all
      select 'run past its deadline', id, state, overdue_from, null from run
       where overdue_from < ${limit} and state in ('queued', 'ready', 'requires_action')
      union all
      select 'run whose conversation is free', r.id, r.state, r.created_at, null
        from run r
       cross join lateral (select id, run_id from conversation where id = r.conversation_id ${UNMERGED}) c
        join batch b on b.id = r.batch_id
       where r.state = 'queued' and r.created_at < ${limit} and c.run_id is null and b.state <> 'cancelling'
         -- A run may have held it a moment ago.
         and not exists (select 1 from run h where h.conversation_id = c.id and h.ended_at >= ${limit})
      union all
      select 'batch without open runs', b.id, b.state, b.next_due_at, b.lease_until from batch b
       where b.state in ('running', 'paused', 'cancelling') and b.next_due_at is null and b.created_at < ${limit}
         and not exists (select 1 from run r
                          where r.batch_id = b.id and (r.ended_at is null or r.ended_at >= ${limit}))
      union all
      select 'batch whose pilot has ended', b.id, b.state, b.next_due_at, b.lease_until from batch b
       where b.pilot_state = 'running' and b.state in ('running', 'paused') and b.next_due_at is null and b.created_at < ${limit}
         and not exists (select 1 from run r
                          where r.batch_id = b.id and r.ordinal = any(b.pilot_ordinals)
                            and (r.ended_at is null or r.ended_at >= ${limit}))
      union all
      select 'batch with room again', b.id, g.room, b.next_due_at, b.lease_until
        from batch_budget g join batch b on b.id = g.batch_id
       where g.room = 'freed' and b.state = 'running' and b.updated_at < ${limit}
         and exists (select 1 from run r where r.batch_id = b.id and r.state = 'ready')
         -- Causes of a release: a step or run that ended, runs in a chunk again, or runs past their deadline.
         and not exists (
           select 1 from run r left join step s on s.run_id = r.id
            where r.batch_id = b.id
              and (r.overdue_from <= (select ${now})
                   or greatest(r.created_at, r.ended_at, s.sealed_at, s.applied_at, s.ended_at) >= ${limit}
                   or (r.state = 'ready' and r.id in (select unnest(run_ids) from run_chunk))))`,
  };
}
