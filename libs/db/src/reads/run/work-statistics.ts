import { toWorkStatistics, type WorkStatistics, type WorkSum } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Reads the statistics of keys; a key without answers is left out. Index: primary key. */
export async function readWorkStatistics(
  db: Database,
  keys: readonly string[],
): Promise<ReadonlyMap<string, WorkStatistics>> {
  if (keys.length === 0) return new Map();
  const { rows } = await sql<WorkSum>`
    select key, measure, bucket, answers, ended, prompt_tokens, output_tokens, cache_write_5m_tokens,
           cache_write_1h_tokens, cache_read_tokens
      from work_statistic where key = any(${[...new Set(keys)]}::text[])
  `.execute(db);
  return new Map(
    [...Map.groupBy(rows, ({ key }) => key)].map(([key, sums]) => [key, toWorkStatistics(sums)]),
  );
}
