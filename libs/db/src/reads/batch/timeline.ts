import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Ends, failures and use of a batch in one bucket of its chart. */
export interface TimelineBucket {
  readonly from: Date;
  readonly ended: number;
  readonly failed: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_nanousd: number;
}

/** Widths of buckets. Unit: minutes. */
export const BUCKET_MINUTES = { '1m': 1, '5m': 5, '15m': 15, '1h': 60 } as const;
export type Bucket = keyof typeof BUCKET_MINUTES;

/**
 * Reads the last `limit` buckets of a batch, oldest first; buckets without a change are left out.
 * Index: primary key.
 */
export async function readTimeline(
  db: Database,
  batchId: string,
  bucket: Bucket,
  limit: number,
): Promise<readonly TimelineBucket[]> {
  const { rows } = await sql<TimelineBucket>`
    select date_bin(interval '1 minute' * ${BUCKET_MINUTES[bucket]}::int, minute, 'epoch') as from,
           sum(ended)::int as ended, sum(failed)::int as failed, sum(input_tokens)::bigint as input_tokens,
           sum(output_tokens)::bigint as output_tokens, sum(cost_nanousd)::bigint as cost_nanousd
      from batch_minute where batch_id = ${batchId}::uuid
     group by 1 order by 1 desc limit ${limit}
  `.execute(db);
  return rows.toReversed();
}

/** Reads the time between the first and the last minute of a batch's chart. Unit: minutes. Index: primary key. */
export async function readTimelineMinutes(db: Database, batchId: string): Promise<number> {
  const { rows } = await sql<{ minutes: number }>`
    select coalesce(extract(epoch from (select minute from batch_minute where batch_id = ${batchId}::uuid order by minute desc limit 1)
                                     - (select minute from batch_minute where batch_id = ${batchId}::uuid order by minute limit 1)) / 60,
                    0)::float8 as minutes
  `.execute(db);
  return rows[0]?.minutes ?? 0;
}
