import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { USAGE_KEY, USAGE_SUMS, usageOf } from './usage-rows.ts';

export type UsageGrouping = 'day' | 'model' | 'tag' | 'schedule';

/** The use of a day, a model, a tag or a schedule. */
export interface UsageRow {
  /** Null: batches without a tag, or without a schedule. */
  readonly key: string | null;
  readonly completed: number;
  /** Failed and expired runs. */
  readonly failed: number;
  readonly cancelled: number;
  readonly steps: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_write_tokens: number;
  readonly cache_read_tokens: number;
  readonly cost_nanousd: number;
  readonly unpriced_steps: number;
}

/** The days of a question, both included. */
export interface UsageDays {
  readonly from: string;
  readonly to: string;
}

const KEYS = {
  day: sql`u.day::text`,
  model: sql`u.model`,
  tag: sql`t.tag`,
  schedule: sql`u.schedule_id::text`,
} as const;

const SUMS = sql.join(USAGE_SUMS.map((name) => sql`sum(u.${sql.ref(name)})::bigint as ${sql.ref(name)}`));

/**
 * Reads the use between two days, by key. Ended batches are in `usage_day`, also those that were forgotten since; open batches
 * are summed from their steps, in the same snapshot, so nothing counts twice. Batches of later days are not read. With `tag` a batch counts under each of its tags.
 * Index: the unique key of `usage_day`, `batch_open`, the unique (batch, ordinal), primary keys.
 */
export async function readUsage(
  db: Database,
  projectId: string,
  { from, to }: UsageDays,
  grouping: UsageGrouping,
): Promise<readonly UsageRow[]> {
  const columns = sql`${USAGE_KEY}, ${sql.join(USAGE_SUMS.map((name) => sql.ref(name)))}`;
  const ofDays = sql`project_id = ${projectId}::uuid and day between ${from}::date and ${to}::date`;
  const isOpen = sql`b.completed_at is null and b.project_id = ${projectId}::uuid
    and b.created_at < (${to}::date + 1)::timestamp at time zone 'UTC'`;
  const byTag = sql`left join lateral unnest(case when u.tags = '{}' then array[null::text] else u.tags end) as t(tag) on true`;
  const { rows } = await sql<UsageRow>`
    with used as (
      select ${columns} from usage_day where ${ofDays}
      union all
      select ${columns} from (${usageOf(isOpen)}) open where ${ofDays})
    select ${KEYS[grouping]} as key, ${SUMS}
      from used u ${grouping === 'tag' ? byTag : sql``}
     group by 1 order by 1
  `.execute(db);
  return rows;
}

/** Returns the UTC days that end today, by the database's clock. */
export async function readLastDays(db: Database, days: number): Promise<UsageDays> {
  const { rows } = await sql<UsageDays>`
    select ((app_now() at time zone 'UTC')::date - ${days - 1}::int)::text as from, ((app_now() at time zone 'UTC')::date)::text as to
  `.execute(db);
  return rows[0] ?? { from: '', to: '' };
}
