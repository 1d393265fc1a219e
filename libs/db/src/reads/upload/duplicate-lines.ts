import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/** A staged line with the custom id of an earlier line. */
export interface DuplicateLine {
  readonly ordinal: number;
  /** The first line with the custom id. */
  readonly first: number;
}

/** Memory for the hashes of a million lines, which would otherwise be sorted on disk. */
const WORK_MEM = '96MB';

/**
 * Reads up to `limit` staged lines whose custom id an earlier line has, in order, and the number of all.
 * Groups 8-byte hashes, and compares texts only where hashes are equal. Index: primary key.
 */
export async function readDuplicateLines(
  trx: Tx,
  batchId: string,
  limit: number,
): Promise<{ readonly lines: readonly DuplicateLine[]; readonly total: number }> {
  await sql`select set_config('work_mem', ${WORK_MEM}, true)`.execute(trx);
  const { rows: hashes } = await sql<{ hash: string }>`
    select hashtextextended(custom_id, 0)::text as hash from staged_line
     where batch_id = ${batchId}::uuid and custom_id is not null
     group by hashtextextended(custom_id, 0) having count(*) > 1
     limit 10000
  `.execute(trx);
  if (hashes.length === 0) return { lines: [], total: 0 };
  const { rows } = await sql<DuplicateLine & { total: number }>`
    select ordinal, first, (count(*) over ())::int as total
      from (select ordinal, min(ordinal) over (partition by custom_id) as first from staged_line
             where batch_id = ${batchId}::uuid
               and hashtextextended(custom_id, 0) = any(${hashes.map(({ hash }) => hash)}::bigint[])) l
     where ordinal > first
     order by ordinal
     limit ${limit}
  `.execute(trx);
  return {
    lines: rows.map(({ ordinal, first }) => ({ ordinal, first })),
    total: rows[0]?.total ?? 0,
  };
}
