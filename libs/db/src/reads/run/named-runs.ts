import { ISSUES_MAX, NightshiftError, type RunState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { anyUuid } from '../../fragments.ts';

/**
 * Checks that a request names runs of a batch in `/run_ids`, and runs that have ended where it needs them.
 * Throws: `validation_failed`. Index: primary key.
 */
export async function assertRunsOf(
  db: Database,
  batchId: string,
  runIds: readonly string[],
  needs: 'any' | 'ended',
): Promise<void> {
  const { rows } = await sql<{ id: string; state: RunState; is_ended: boolean }>`
    select id, state, ended_at is not null as is_ended from run where id = ${anyUuid(runIds)} and batch_id = ${batchId}::uuid
  `.execute(db);
  const known = new Map(rows.map((row) => [row.id, row]));
  const fields = runIds.flatMap((id, index) => {
    const run = known.get(id);
    const path = `/run_ids/${index}`;
    if (run === undefined) return [{ path, message: `run-${id} is no run of job-${batchId}` }];
    return needs === 'any' || run.is_ended
      ? []
      : [{ path, message: `run-${id} is ${run.state}: wait for its end, or cancel it` }];
  });
  const [first] = fields;
  if (first === undefined) return;
  throw new NightshiftError('validation_failed', `${first.path}: ${first.message}. Nothing was changed.`, {
    fields: fields.slice(0, ISSUES_MAX),
    fields_total: fields.length,
  });
}
