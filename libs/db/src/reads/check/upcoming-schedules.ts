import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import { selectAgents, type SelectedAgents } from '../catalog/selected-agents.ts';

/** An active schedule, with the parts of its body that say what a tick starts. */
export interface UpcomingSchedule {
  readonly id: string;
  readonly name: string;
  readonly cron: string;
  readonly time_zone: string;
  readonly overlap: 'skip' | 'queue';
  readonly ends_at: Date | null;
  readonly max_cost_nanousd_per_month: number | null;
  readonly tick_due_at: Date;
  /** The selection of a fleet; null for stored requests. */
  readonly agents: unknown;
  readonly allow_empty: boolean;
  /** Stored requests; null for a fleet. */
  readonly requests: number | null;
  readonly max_cost_usd: number | null;
}

/** Reads the active schedules with a tick up to `until`, the next first. Index: `schedule_due`. */
export async function readUpcomingSchedules(
  db: Database,
  projectId: string,
  until: Date,
  limit: number,
): Promise<readonly UpcomingSchedule[]> {
  const { rows } = await sql<UpcomingSchedule>`
    select id, name, cron, time_zone, overlap, ends_at, max_cost_nanousd_per_month, tick_due_at, body -> 'agents' as agents,
           coalesce((body ->> 'allow_empty')::boolean, false) as allow_empty,
           case when json_typeof(body -> 'requests') = 'array' then json_array_length(body -> 'requests')
                when json_typeof(body -> 'inputs') = 'array' then json_array_length(body -> 'inputs') end as requests,
           (body ->> 'max_cost_usd')::float8 as max_cost_usd
      from schedule
     where project_id = ${projectId}::uuid and tick_due_at is not null and next_due_at <= ${until}
     order by next_due_at, id limit ${limit}
  `.execute(db);
  return rows;
}

/** The last batches of a schedule. */
export interface LastCosts {
  readonly schedule_id: string;
  /** Whether one has not ended, so that the next tick is skipped or waits. */
  readonly has_open_batch: boolean;
  /** Costs of the last ended batches, the latest first. Unit: billionths of a US dollar. */
  readonly costs_nanousd: readonly number[];
}

/** Reads the costs of the last `count` ended batches of schedules. Index: `batch_by_schedule`, primary key of `batch_tally`. */
export async function readLastCosts(
  db: Database,
  scheduleIds: readonly string[],
  count: number,
): Promise<ReadonlyMap<string, LastCosts>> {
  const { rows } = await sql<LastCosts>`
    select s.id as schedule_id,
           exists (select from batch where schedule_id = s.id and completed_at is null) as has_open_batch,
           array(select coalesce((select sum(cost_nanousd) from batch_tally where batch_id = b.id), 0)::bigint
                   from (select id, created_at from batch where schedule_id = s.id and completed_at is not null
                          order by created_at desc, id desc limit ${count} ${UNMERGED}) b
                  order by b.created_at desc) as costs_nanousd
      from unnest(${[...scheduleIds]}::uuid[]) as s(id)
  `.execute(db);
  return new Map(rows.map((row) => [row.schedule_id, row]));
}

/**
 * Counts the agents that selections have now, in their order, each up to `max`.
 * Index: as {@link selectAgents}; one statement.
 */
export async function countSelectedAgents(
  db: Database,
  projectId: string,
  selections: readonly SelectedAgents[],
  max: number,
): Promise<readonly number[]> {
  if (selections.length === 0) return [];
  const counts = selections.map((selection, place) => {
    const limit = Math.min(selection.limit ?? max, max);
    return sql`select ${place}::int as place, count(*)::int as agents from (${selectAgents(projectId, { ...selection, limit })}) s`;
  });
  const { rows } = await sql<{ readonly place: number; readonly agents: number }>`
    select place, agents from (${sql.join(counts, sql` union all `)}) c order by place
  `.execute(db);
  return rows.map(({ agents }) => agents);
}
