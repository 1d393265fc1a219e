import { sql } from 'kysely';
import type { Invariant } from './invariant.ts';

/** Ended runs, as readers of results and failures find them. */
export const END_INVARIANTS: readonly Invariant[] = [
  {
    id: 'I28',
    name: 'each ended run is listed once among the ended runs of its batch, and no other run is',
    sql: sql`
      with listed as (
        select e.batch_id, u.id, count(*)::int as times from ended_runs e cross join lateral unnest(e.run_ids) as u(id)
         where e.batch_id not in (select id from forgotten_batch where removed_at is null) group by 1, 2)
      select r.id as run_id, r.batch_id, l.batch_id as listed_under, l.times
        from (select id, batch_id from run where ended_at is not null and batch_id in (select id from batch)) r full join listed l on l.id = r.id
       where r.id is null or l.id is null or l.times <> 1 or l.batch_id <> r.batch_id
      union all
      select null, e.batch_id, null, null
        from (select batch_id, slot, max(version) as version from ended_runs group by batch_id, slot) e
        left join batch_tally t on t.batch_id = e.batch_id and t.slot = e.slot
       where (t.version is null or t.version < e.version)
         and e.batch_id not in (select id from forgotten_batch where removed_at is null)`,
  },
  {
    id: 'I29',
    name: 'each run that failed, expired or was cancelled is among the failures, and no other run is',
    sql: sql`
      select coalesce(r.id, f.run_id) as run_id, r.state, f.state as noted, r.stop_reason, f.stop_reason as noted_reason
        from (select * from run where state in ('failed', 'expired', 'cancelled')) r full join run_failure f on f.run_id = r.id
       where r.id is null or f.run_id is null
          or (r.batch_id, r.state, r.stop_reason, r.ended_at) is distinct from (f.batch_id, f.state, f.stop_reason, f.failed_at)`,
  },
  {
    id: 'I30',
    name: 'each run of a retry stands for one ended run of the retried batch with its custom_id, and no run is tried again twice',
    sql: sql`
      select 'run' as what, r.id as run_id, r.batch_id, t.run_id as retried_id
        from (select id, batch_id, agent_id, custom_id from run where batch_id in (select id from batch where retry_of is not null)) r
        left join batch_retry_run t on t.batch_id = r.batch_id and t.retry_run_id = r.id
        left join run o on o.id = t.run_id
       where t.run_id is null
          or (o.id is not null and (r.agent_id, r.custom_id) is distinct from (o.agent_id, o.custom_id))
      union all
      select 'retried', t.retry_run_id, t.batch_id, t.run_id
        from batch_retry_run t
        join batch b on b.id = t.batch_id
        left join run o on o.id = t.run_id
        left join run r on r.id = t.retry_run_id
       where b.retry_of is null or o.batch_id <> b.retry_of or (o.id is not null and o.ended_at is null)
          or (t.retry_run_id is not null and r.batch_id is distinct from t.batch_id)
          or (t.ordinal < b.agents_taken) <> (num_nonnulls(t.retry_run_id, t.skip_reason) = 1)
      union all
      select 'twice', min(t.retry_run_id::text)::uuid, null, t.run_id
        from batch_retry_run t where t.retry_run_id is not null group by t.run_id having count(*) > 1`,
  },
  {
    id: 'I31',
    name: 'a batch is listed under its tags, and under no other',
    sql: sql`
      select b.id as batch_id, b.tags, l.tags as listed
        from batch b
       cross join lateral (
         select array_agg(substr(label, 5) order by label) as tags from batch_label
          where batch_id = b.id and (project_id, created_at) = (b.project_id, b.created_at) and starts_with(label, 'tag ')) l
       where array(select t from unnest(b.tags) t order by 1) <> coalesce(array(select t from unnest(l.tags) t order by 1), '{}')`,
  },
];
