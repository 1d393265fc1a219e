import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Reads the models with an outage that fresh requests have proven within the last `maxMs`. Index: primary key. */
export async function readOutages(
  db: Database,
  credential: string,
  maxMs: number,
): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ model: string }>`
    select model from model_outage
     where credential = ${credential} and ended_at is null
       and seen_at > app_now() - ${maxMs}::float8 * interval '1 millisecond'
  `.execute(db);
  return new Set(rows.map(({ model }) => model));
}

/** Failed attempts by error type, and outages by model, since the installation. */
export interface FailureCounts {
  readonly failed_lines: readonly { readonly error_type: string; readonly lines: number }[];
  readonly outages: readonly { readonly model: string; readonly outages: number }[];
}

/** Reads the counts of failures for metrics. */
export async function readFailureCounts(db: Database): Promise<FailureCounts> {
  const failed = await sql<{ error_type: string; lines: number }>`
    select error_type, sum(lines)::bigint as lines from failed_lines group by error_type order by error_type
  `.execute(db);
  const outages = await sql<{ model: string; outages: number }>`
    select model, sum(outages)::bigint as outages from model_outage group by model order by model
  `.execute(db);
  return { failed_lines: failed.rows, outages: outages.rows };
}
