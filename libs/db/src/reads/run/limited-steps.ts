import type { StepKey } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { IS_ANSWER_LIMITED } from '../../fragments.ts';

/** Reads the runs of steps whose answers had a limit below `max_tokens` under a cap. Index: primary key. */
export async function readLimitedSteps(db: Database, keys: readonly StepKey[]): Promise<ReadonlySet<string>> {
  if (keys.length === 0) return new Set();
  const { rows } = await sql<{ run_id: string }>`
    select s.run_id
      from json_to_recordset(${JSON.stringify(keys)}::json) as k(run_id uuid, number int, attempt int)
      join step s on s.run_id = k.run_id and s.number = k.number and s.attempt = k.attempt
     where ${IS_ANSWER_LIMITED}
  `.execute(db);
  return new Set(rows.map((row) => row.run_id));
}
