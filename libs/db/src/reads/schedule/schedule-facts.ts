import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';
import type { ScheduleRow } from './schedules.ts';

/** The rows that decide about a tick, read under the schedule's lock. */
export interface ScheduleFacts {
  /** A batch of the schedule has not ended. */
  readonly has_open_batch: boolean;
  /** The tick that waits for its end. */
  readonly waiting: { readonly due_at: Date; readonly is_manual: boolean } | null;
  /** Failed ticks in a row, at most `failures_max`; since the last resume. */
  readonly failures: number;
}

/**
 * Reads the facts of a schedule. A failed tick was refused, or its batch failed; skipped and missed ticks, and open and
 * cancelled batches, do not count.
 * Index: `batch_open_by_schedule`, `tick_waiting`, primary key of `tick` from the last resume on.
 */
export async function readScheduleFacts(
  db: Database,
  { id, failures_max, resumed_at }: Pick<ScheduleRow, 'id' | 'failures_max' | 'resumed_at'>,
): Promise<ScheduleFacts> {
  const { rows } = await sql<{
    has_open_batch: boolean;
    waiting_due_at: Date | null;
    waiting_is_manual: boolean | null;
    failures: number;
  }>`
    select exists (select from batch where schedule_id = ${id}::uuid and completed_at is null) as has_open_batch,
           w.due_at as waiting_due_at, w.is_manual as waiting_is_manual,
           (select count(*)::int
              from (select t.outcome, b.state
                      from tick t
                      left join lateral (
                        select state from batch where id = t.batch_id
                        union all select state from forgotten_batch where id = t.batch_id ${UNMERGED}) b on true
                     where t.schedule_id = ${id}::uuid and t.due_at > coalesce(${resumed_at}::timestamptz, '-infinity')
                       and (t.outcome = 'refused' or b.state in ('completed', 'failed'))
                     order by t.due_at desc limit ${failures_max ?? 0}) last
             where last.outcome = 'refused' or last.state = 'failed') as failures
      from (select 1) one left join tick w on w.schedule_id = ${id}::uuid and w.outcome = 'waiting'
  `.execute(db);
  const row = rows[0];
  if (row === undefined) throw new Error('The database returned no row about a schedule.');
  const { waiting_due_at, waiting_is_manual } = row;
  return {
    has_open_batch: row.has_open_batch,
    waiting:
      waiting_due_at === null ? null : { due_at: waiting_due_at, is_manual: waiting_is_manual ?? false },
    failures: row.failures,
  };
}

/** The ticks of a schedule in a span of time. */
export interface TicksOfSpan {
  readonly id: string;
  readonly from: Date;
  readonly to: Date;
}

/** The money of batches. */
export interface Spending {
  readonly spent_nanousd: number;
  /** An open batch counts with its cap; null: an open batch has none. */
  readonly committed_nanousd: number | null;
}

/**
 * Reads the money that the batches of ticks cost, and may still cost, by schedule.
 * Index: `batch_by_schedule`, `forgotten_batch_by_schedule`, primary keys; one statement.
 */
export async function readScheduleSpending(
  db: Database,
  spans: readonly TicksOfSpan[],
): Promise<ReadonlyMap<string, Spending>> {
  if (spans.length === 0) return new Map();
  const { rows } = await sql<Spending & { id: string }>`
    select s.id, coalesce(sum(t.cost), 0)::bigint as spent_nanousd,
           case when not coalesce(bool_or(b.completed_at is null and g.max_cost_nanousd is null), false)
             then coalesce(sum(case when b.completed_at is null then greatest(g.max_cost_nanousd, t.cost) else t.cost end), 0)::bigint
           end as committed_nanousd
      from json_to_recordset(${JSON.stringify(spans)}::json) as s("id" uuid, "from" timestamptz, "to" timestamptz)
     cross join lateral (
       select id, completed_at, null::bigint as cost_nanousd from batch b
        where b.schedule_id = s.id and b.created_at >= s."from" - interval '1 minute'
          and b.tick_due_at >= s."from" and b.tick_due_at < s."to"
       union all
       select id, completed_at, cost_nanousd from forgotten_batch b
        where b.schedule_id = s.id and b.created_at >= s."from" - interval '1 minute'
          and b.tick_due_at >= s."from" and b.tick_due_at < s."to") b
      left join batch_budget g on g.batch_id = b.id
     cross join lateral (
       select coalesce(b.cost_nanousd, (select sum(cost_nanousd)::bigint from batch_tally where batch_id = b.id), 0) as cost) t
     group by s.id
  `.execute(db);
  return new Map(rows.map(({ id, ...spending }) => [id, spending]));
}
