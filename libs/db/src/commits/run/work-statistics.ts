import { sumWorkSamples, WORK_COUNTS, type WorkSample } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Keys halved or deleted by one call. */
const KEYS_PER_CALL = 100;
const UNUSED_DAYS = 90;

const NAMES = sql.join(WORK_COUNTS.map((name) => sql.ref(name)));
const TYPED_NAMES = sql.join(WORK_COUNTS.map((name) => sql`${sql.ref(name)} bigint`));
const ADDED = sql.join(
  WORK_COUNTS.map((name) => sql`${sql.ref(name)} = ${sql.ref(`w.${name}`)} + ${sql.ref(`excluded.${name}`)}`),
);
const HALVED = sql.join(WORK_COUNTS.map((name) => sql`${sql.ref(name)} = ${sql.ref(`w.${name}`)} / 2`));

/** Adds samples to the statistics of their keys, in one statement. Locks: the rows, in the order of their keys. */
export async function commitWorkSamples(db: Database, samples: readonly WorkSample[]): Promise<void> {
  if (samples.length === 0) return;
  await sql`
    insert into work_statistic as w (key, measure, bucket, project_id, ${NAMES}, used_on)
    select d.key, d.measure, d.bucket, p.id, ${NAMES}, date_trunc('day', app_now())
      from json_to_recordset(${JSON.stringify(sumWorkSamples(samples))}::json)
             as d(key text, measure text, bucket smallint, ${TYPED_NAMES}),
           (select id from project limit 1) p
     order by d.key collate "C", d.measure collate "C", d.bucket
    on conflict (key, measure, bucket) do update set ${ADDED}, used_on = excluded.used_on
  `.execute(db);
}

/**
 * Halves the counts of keys with 50,000 answers, so that changed work shows, and deletes keys without new answers for 90 days.
 * Locks: the rows of these keys, skipping locked keys. Index: `work_statistic_full`, `work_statistic_unused`, primary key.
 */
export async function forgetWorkStatistics(db: Database): Promise<void> {
  await sql`
    with many as (
      select key from work_statistic where measure = 'total' and answers >= 50000
       order by key limit ${KEYS_PER_CALL} for update skip locked),
    halved as (
      update work_statistic w set ${HALVED} from many where w.key = many.key returning 1),
    old as (
      select key from work_statistic
       where measure = 'total' and answers < 50000
         and used_on < app_now() - ${UNUSED_DAYS} * interval '1 day'
       order by used_on limit ${KEYS_PER_CALL} for update skip locked)
    delete from work_statistic w using old where w.key = old.key
  `.execute(db);
}
