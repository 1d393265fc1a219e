import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database, Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import type { ScheduleState, TickOutcome } from '../../tables.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { toKeyset, type Page } from '../keyset.ts';

export const SCHEDULE_COLUMNS = [
  'id',
  'project_id',
  'name',
  'cron',
  'time_zone',
  'body',
  'state',
  'state_reason',
  'overlap',
  'catch_up_window_s',
  'jitter_s',
  'ends_at',
  'max_cost_nanousd_per_month',
  'failures_max',
  'tick_due_at',
  'next_due_at',
  'resumed_at',
  'revision',
  'created_at',
  'updated_at',
] as const;

/** A schedule as stored. `body` is a batch body with ids as in the database. */
export interface ScheduleRow {
  readonly id: string;
  readonly project_id: string;
  readonly name: string;
  readonly cron: string;
  readonly time_zone: string;
  readonly body: unknown;
  readonly state: ScheduleState;
  readonly state_reason: string | null;
  readonly overlap: 'skip' | 'queue';
  readonly catch_up_window_s: number;
  readonly jitter_s: number;
  readonly ends_at: Date | null;
  readonly max_cost_nanousd_per_month: number | null;
  readonly failures_max: number | null;
  /** The next moment of its rule; null unless active. */
  readonly tick_due_at: Date | null;
  readonly next_due_at: Date | null;
  readonly resumed_at: Date | null;
  readonly revision: number;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** A tick as stored. */
export interface TickRow {
  readonly due_at: Date;
  readonly is_manual: boolean;
  readonly outcome: TickOutcome;
  readonly reason: string | null;
  readonly message: string | null;
  readonly batch_id: string | null;
  readonly created_at: Date;
}

const TICK_COLUMNS = [
  'due_at',
  'is_manual',
  'outcome',
  'reason',
  'message',
  'batch_id',
  'created_at',
] as const;

/** Reads one schedule. Throws: `not_found`. Index: primary key. */
export async function readSchedule(
  db: Database,
  projectId: string,
  scheduleId: string,
): Promise<ScheduleRow> {
  const schedule = await db
    .selectFrom('schedule')
    .select(SCHEDULE_COLUMNS)
    .where('id', '=', scheduleId)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  if (schedule === undefined) throw unknownSchedule(scheduleId);
  return schedule;
}

/** Reads a page of schedules by age. Index: `schedule_by_age`. */
export async function listSchedules(
  db: Database,
  projectId: string,
  page: Page,
): Promise<Listed<ScheduleRow>> {
  const keyset = await toKeyset(db, page, 'schedule', 's', sql`s.project_id = ${projectId}`);
  const query = db
    .selectFrom('schedule as s')
    .select(SCHEDULE_COLUMNS)
    .where('s.project_id', '=', projectId)
    .where(keyset.where)
    .orderBy(keyset.orderBy)
    .limit(page.limit);
  const size = sql`octet_length(p.body::text)`;
  const { rows, is_cut } = await readCutPage<ScheduleRow>(db, sql`${query}`, size);
  return { rows: keyset.inOrder(rows), is_cut };
}

/** Reads the newest ticks of a schedule before a moment (null: all), newest first. Index: primary key. */
export async function listTicks(
  db: Database,
  scheduleId: string,
  page: { readonly before: Date | null; readonly limit: number },
): Promise<readonly TickRow[]> {
  return db
    .selectFrom('tick')
    .select(TICK_COLUMNS)
    .where('schedule_id', '=', scheduleId)
    .where('due_at', '<', sql<Date>`coalesce(${page.before}::timestamptz, 'infinity')`)
    .orderBy('due_at', 'desc')
    .limit(page.limit)
    .execute();
}

/** Reads the latest tick of each schedule. Index: primary key of `tick`. */
export async function readLastTicks(
  db: Database,
  scheduleIds: readonly string[],
): Promise<ReadonlyMap<string, TickRow>> {
  const { rows } = await sql<TickRow & { schedule_id: string }>`
    select t.schedule_id, t.due_at, t.is_manual, t.outcome, t.reason, t.message, t.batch_id, t.created_at
      from unnest(${[...scheduleIds]}::uuid[]) as s(id)
     cross join lateral (select * from tick where schedule_id = s.id order by due_at desc limit 1) t
  `.execute(db);
  return new Map(rows.map(({ schedule_id, ...tick }) => [schedule_id, tick]));
}

/** Reads the moment of the latest tick that no person asked for; null without any. Index: primary key of `tick`. */
export async function readLastTickDueAt(trx: Tx, scheduleId: string): Promise<Date | null> {
  const tick = await trx
    .selectFrom('tick')
    .select('due_at')
    .where('schedule_id', '=', scheduleId)
    .where('is_manual', '=', false)
    .orderBy('due_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  return tick?.due_at ?? null;
}

/**
 * Reads the ids of due schedules that no transaction holds, oldest first. The statement locks them only to skip the
 * ids of held rows.
 * Index: `schedule_due`.
 */
export async function readDueScheduleIds(db: Database, limit: number): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('schedule')
    .select('id')
    .where('next_due_at', '<=', NOW)
    .orderBy('next_due_at')
    .limit(limit)
    .forNoKeyUpdate()
    .skipLocked()
    .execute();
  return rows.map(({ id }) => id);
}

/** Reads a schedule for a look at it; null if it is gone. Index: primary key. */
export async function findSchedule(db: Database, scheduleId: string): Promise<ScheduleRow | null> {
  const schedule = await db
    .selectFrom('schedule')
    .select(SCHEDULE_COLUMNS)
    .where('id', '=', scheduleId)
    .executeTakeFirst();
  return schedule ?? null;
}

/** Reads the milliseconds until the next schedule is due; null without any. Index: `schedule_due`. */
export async function readMsToNextSchedule(db: Database): Promise<number | null> {
  const { rows } = await sql<{ ms: number | null }>`
    select (extract(epoch from (select min(next_due_at) from schedule where next_due_at > app_now()) - app_now())
              * 1000)::float8 as ms
  `.execute(db);
  return rows[0]?.ms ?? null;
}

/** Makes the error of an unknown schedule. */
export function unknownSchedule(scheduleId: string): NightshiftError {
  return new NightshiftError('not_found', `There is no schedule schedule-${scheduleId}.`);
}
