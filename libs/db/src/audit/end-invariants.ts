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
];
