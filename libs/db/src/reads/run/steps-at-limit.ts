import type { StepKey } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { outputMaxOf, type OutputMaxima } from './output-max.ts';

/**
 * Reads the runs of steps whose next attempt would get no more tokens, however often they are doubled, because of the
 * model's limit or the window. A summary step counts if a summary was cut off before, since it is requested only once more.
 * Index: primary keys.
 */
export async function readStepsAtLimit(
  db: Database,
  keys: readonly StepKey[],
  maxima: OutputMaxima,
): Promise<ReadonlySet<string>> {
  if (keys.length === 0) return new Set();
  const { rows } = await sql<{ run_id: string }>`
    select s.run_id
      from json_to_recordset(${JSON.stringify(keys)}::json) as k(run_id uuid, number int, attempt int)
      join step s on s.run_id = k.run_id and s.number = k.number and s.attempt = k.attempt
      join run r on r.id = s.run_id
      join definition d on d.id = r.definition_id
     where case when s.is_summary
                then exists (select from step e
                              where e.run_id = s.run_id and e.number = s.number and e.attempt < s.attempt
                                and e.is_summary and e.stop_reason = 'max_tokens')
                else s.max_tokens_fitted is not null or s.max_tokens >= least(${outputMaxOf(maxima)}, 2147483647) end
  `.execute(db);
  return new Set(rows.map((row) => row.run_id));
}
