import { sql } from 'kysely';
import type { Invariant } from './invariant.ts';

/** Pilots: their runs go alone, and their ends are decided. */
export const PILOT_INVARIANTS: readonly Invariant[] = [
  {
    id: 'I26',
    name: 'no run outside a pilot has a step from before the batch went on',
    sql: sql`
      select b.id as batch_id, b.pilot_state, b.pilot_ended_at, r.id as run_id, r.ordinal, s.number, s.sealed_at
        from batch b
        join run r on r.batch_id = b.id and not coalesce(r.ordinal = any(b.pilot_ordinals), false)
        join step s on s.run_id = r.id
       where b.pilot_state in ('running', 'waiting', 'stopped')
          or (b.pilot_state = 'passed' and s.sealed_at < b.pilot_ended_at)`,
  },
  {
    id: 'I26b',
    name: 'a pilot that has ended has counted all its runs, each of which has ended, and a batch that waits for it says why',
    sql: sql`
      select b.id as batch_id, b.state, b.state_reason, b.pilot_state, b.pilot_ordinals, c.runs, c.open, c.counted
        from batch b
       cross join lateral (
         select count(*)::int as runs,
                count(*) filter (where r.ended_at is null or r.ended_at > b.pilot_ended_at)::int as open,
                (select (b.pilot_result->>'completed')::int + (b.pilot_result->>'failed')::int
                        + (b.pilot_result->>'cancelled')::int) as counted
           from run r where r.batch_id = b.id and r.ordinal = any(b.pilot_ordinals)) c
       where c.runs <> coalesce(cardinality(b.pilot_ordinals), 0)
          or (b.pilot_ended_at is not null and (c.open > 0 or c.counted <> c.runs))
          or (b.pilot_state = 'waiting' and coalesce(b.state_reason, '') = '')`,
  },
];
