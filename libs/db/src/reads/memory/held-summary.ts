import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import {
  CHANGE_GROUP,
  HELD_ROWS,
  IS_SHRUNK,
  isListed,
  STALE_REASON,
  type HeldChangeFilter,
} from './held-conditions.ts';

/** Counts of held changes. */
export interface HeldSummary {
  readonly total: number;
  readonly counts: readonly {
    readonly of: 'state' | 'label' | 'run_state' | 'shrunk' | 'stale';
    readonly value: string;
    readonly changes: number;
  }[];
  /** Number of different changes. */
  readonly groups_total: number;
  /** Equal changes, the largest groups first. */
  readonly groups: readonly {
    readonly change_group: string;
    readonly changes: number;
    readonly held: number;
    readonly label: string;
    readonly first_draft_id: string;
  }[];
}

/**
 * Counts a batch's held changes, in one statement that reads each once.
 * Index: `held_change_by_draft`, primary keys.
 */
export async function summarizeHeldChanges(
  db: Database,
  batchId: string,
  filter: HeldChangeFilter,
  limits: { readonly labels: number; readonly groups: number },
): Promise<HeldSummary> {
  const { rows } = await sql<HeldSummary>`
    with x as materialized (
      select h.draft_id, h.state, d.label, r.state as run_state, ${IS_SHRUNK} as shrunk,
             ${STALE_REASON} is not null as stale, ${CHANGE_GROUP} as change_group
        from ${HELD_ROWS}
       where ${isListed(batchId, filter)}),
    counted as (
      select case when grouping(state) = 0 then 'state' when grouping(label) = 0 then 'label'
                  when grouping(run_state) = 0 then 'run_state' when grouping(shrunk) = 0 then 'shrunk' else 'stale' end as "of",
             coalesce(state, label, run_state, shrunk::text, stale::text) as value, count(*)::int as changes
        from x group by grouping sets ((state), (label), (run_state), (shrunk), (stale))),
    equal as (
      select change_group, count(*)::int as changes, (count(*) filter (where state = 'held'))::int as held, min(label) as label,
             (array_agg(draft_id order by draft_id))[1] as first_draft_id
        from x group by change_group)
    select (select count(*)::int from x) as total,
           (select coalesce(json_agg(k), '[]') from (
              select "of", value, changes from (
                select *, row_number() over (partition by "of" order by changes desc, value) as place from counted) p
               where place <= ${limits.labels} order by "of", place) k) as counts,
           (select count(*)::int from equal) as groups_total,
           (select coalesce(json_agg(g), '[]') from (
              select * from equal order by changes desc, first_draft_id limit ${limits.groups}) g) as groups
  `.execute(db);
  return rows[0] as HeldSummary;
}
