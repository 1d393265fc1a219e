import { sql } from 'kysely';
import type { Invariant } from './invariant.ts';

/** Provider batches: their submissions, leases and counts. */
export const PROVIDER_BATCH_INVARIANTS: readonly Invariant[] = [
  {
    id: 'I6',
    name: 'a step that waits for its answer is in a provider batch that still brings answers',
    sql: sql`
      select s.run_id, s.number, s.attempt, s.provider_batch_id, p.state
        from step s join provider_batch p on p.id = s.provider_batch_id
       where s.state = 'sealed' and p.state in ('ingested', 'rejected', 'orphan_paid')`,
  },
  {
    id: 'I7',
    name: 'a batch of the provider is one of ours, and a nonce names one submission',
    reads: 'all',
    sql: sql`
      select 'provider_id' as what, provider_id as value, count(*)::int as rows
        from provider_batch where provider_id is not null group by provider_id having count(*) > 1
      union all
      select 'nonce', nonce, count(*)::int from provider_batch group by nonce having count(*) > 1
      union all
      select 'nonce in doubt', d.nonce, 1
        from doubted_submission d join provider_batch p on p.nonce = d.nonce where p.id <> d.provider_batch_id`,
  },
  {
    id: 'I8',
    name: 'a step is on its way once: never two attempts at a time, and none beside an applied answer',
    sql: sql`
      select run_id, number, count(*) filter (where state = 'sealed')::int as on_their_way, count(applied_at)::int as applied
        from step group by run_id, number
      having count(*) filter (where state = 'sealed') > 1
          or (count(*) filter (where state = 'sealed') > 0 and count(applied_at) > 0)`,
  },
  {
    id: 'I9',
    name: 'a provider batch has the steps that it was sent with, at dense places, and an ingested one has all their answers',
    reads: 'provider batches',
    sql: sql`
      select p.id as provider_batch_id, p.state, p.request_count, p.forgotten_steps, count(s.run_id)::int as steps, max(s.ordinal) as last_ordinal,
             count(s.run_id) filter (where s.state = 'sealed')::int as open
        from provider_batch p left join step s on s.provider_batch_id = p.id
       where p.state <> 'orphan_paid'
       group by p.id, p.state, p.request_count, p.forgotten_steps
      having p.request_count <> count(s.run_id) + p.forgotten_steps or max(s.ordinal) >= p.request_count or min(s.ordinal) < 0
          or (p.state = 'ingested' and count(s.run_id) filter (where s.state = 'sealed') > 0)`,
  },
  {
    id: 'I11',
    name: 'the counts of a batch are the sums of its runs, steps and calls',
    sql: sql`
      with counted as (
        select batch_id, sum(queued)::bigint as queued, sum(completed)::bigint as completed, sum(failed)::bigint as failed, sum(cancelled)::bigint as cancelled,
               sum(expired)::bigint as expired, sum(requires_action)::bigint as requires_action,
               sum(retrying)::bigint as retrying, sum(steps)::bigint as steps, sum(tool_calls)::bigint as tool_calls,
               sum(ended_tool_calls)::bigint as ended_tool_calls,
               sum(failed_tool_calls)::bigint as failed_tool_calls, sum(unknown_tool_calls)::bigint as unknown_tool_calls,
               sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens,
               sum(cache_write_5m_tokens)::bigint as cache_write_5m_tokens,
               sum(cache_write_1h_tokens)::bigint as cache_write_1h_tokens,
               sum(cache_read_tokens)::bigint as cache_read_tokens, sum(cost_nanousd)::bigint as cost_nanousd,
               sum(unpriced_steps)::bigint as unpriced_steps
          from batch_tally group by batch_id),
      of_runs as (
        select batch_id, count(*) filter (where state = 'queued') as queued, count(*) filter (where state = 'completed') as completed, count(*) filter (where state = 'failed') as failed,
               count(*) filter (where state = 'cancelled') as cancelled, count(*) filter (where state = 'expired') as expired,
               count(*) filter (where state = 'requires_action') as requires_action,
               count(failing_since) as retrying
          from run group by batch_id),
      of_steps as (
        select r.batch_id, count(s.applied_at) as steps, sum(s.input_tokens)::bigint as input_tokens,
               sum(s.output_tokens)::bigint as output_tokens, sum(s.cache_write_5m_tokens)::bigint as cache_write_5m_tokens,
               sum(s.cache_write_1h_tokens)::bigint as cache_write_1h_tokens, sum(s.cache_read_tokens)::bigint as cache_read_tokens,
               sum(s.cost_nanousd)::bigint as cost_nanousd, count(*) filter (where s.cost_nanousd is null) as unpriced_steps
          from step s join run r on r.id = s.run_id group by r.batch_id),
      of_calls as (
        select r.batch_id, count(*) as tool_calls,
               count(*) filter (where c.state in ('succeeded', 'failed', 'unknown')) as ended_tool_calls,
               count(*) filter (where c.state in ('failed', 'unknown')) as failed_tool_calls,
               count(*) filter (where c.state = 'unknown') as unknown_tool_calls
          from tool_call c join run r on r.id = c.run_id group by r.batch_id),
      both_sides as (
        select b.id as batch_id,
               array[t.queued, t.completed, t.failed, t.cancelled, t.expired, t.requires_action, t.retrying, t.steps, t.tool_calls, t.ended_tool_calls, t.failed_tool_calls, t.unknown_tool_calls, t.input_tokens, t.output_tokens,
                     t.cache_write_5m_tokens, t.cache_write_1h_tokens, t.cache_read_tokens, t.cost_nanousd,
                     t.unpriced_steps] as counted,
               array[o.queued, o.completed, o.failed, o.cancelled, o.expired, o.requires_action, o.retrying, s.steps, c.tool_calls, c.ended_tool_calls, c.failed_tool_calls, c.unknown_tool_calls, s.input_tokens, s.output_tokens,
                     s.cache_write_5m_tokens, s.cache_write_1h_tokens, s.cache_read_tokens, s.cost_nanousd,
                     s.unpriced_steps] as summed
          from batch b
          left join counted t on t.batch_id = b.id left join of_runs o on o.batch_id = b.id
          left join of_steps s on s.batch_id = b.id left join of_calls c on c.batch_id = b.id)
      select batch_id, counted, summed from both_sides
       where exists (select 1 from unnest(counted, summed) as u(c, s) where coalesce(u.c, 0) <> coalesce(u.s, 0))`,
  },
  {
    id: 'I15',
    name: 'a lease has an owner and an end or neither, its takeovers are epochs, and an ended row has no holder',
    reads: 'all',
    sql: sql`
      with leased as (
        select 'batch' as what, id, lease_owner, lease_until, lease_epoch, takeovers,
               completed_at is not null and next_due_at is null as over from batch
        union all
        select 'provider_batch', id, lease_owner, lease_until, lease_epoch, takeovers,
               state in ('ingested', 'rejected', 'orphan_paid') from provider_batch
        union all
        select 'run_chunk', id, lease_owner, lease_until, lease_epoch, takeovers, false from run_chunk
        union all
        select 'forgotten_batch', id, lease_owner, lease_until, lease_epoch, takeovers, removed_at is not null from forgotten_batch
        union all
        select 'credential', id, lease_owner, lease_until, lease_epoch, 0, false from credential)
      select * from leased
       where (lease_owner is not null) <> (lease_until > '-infinity') or (lease_owner is not null and lease_epoch < 1)
          or takeovers > greatest(lease_epoch - 1, 0) or (over and lease_owner is not null)`,
  },
];
