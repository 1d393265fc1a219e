import { NightshiftError, type RunState, type StopReason } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { anyText, anyUuid } from '../../fragments.ts';
import { assertRunsOf } from '../../reads/run/named-runs.ts';
import { insertBatch, isLimited } from './accepted-rows.ts';
import type { NewBatch } from './new-batch.ts';

/** The ended runs to try again; null does not restrict. */
export interface RetryChoice {
  readonly states: readonly RunState[] | null;
  readonly ended_reasons: readonly StopReason[] | null;
  readonly error_group: string | null;
  readonly run_ids: readonly string[] | null;
}

/** A batch that tries runs of another batch again. */
export interface ReceivedRetry extends Omit<NewBatch, 'runs'> {
  readonly retry_of: string;
  readonly source: object;
  readonly choice: RetryChoice;
}

/**
 * Stores a batch as `receiving` with the chosen runs in the order of their batch, and returns their number. The flow
 * `accept-batch` makes its runs. A run that another retry has tried again, or is about to, is not chosen.
 * The caller holds the batch of the runs, so that two retries do not choose the same run.
 * Throws: `validation_failed` when no run is chosen, and for a run id of another batch.
 * Index: primary keys, `run_failure_by_group`, the unique (batch, ordinal), `batch_retry_run_by_run`.
 */
export async function receiveRetry(trx: Tx, projectId: string, batch: ReceivedRetry): Promise<number> {
  const { retry_of, choice, source, cap } = batch;
  if (choice.run_ids !== null) await assertRunsOf(trx, retry_of, choice.run_ids, 'ended');
  const { rows } = await sql<{ runs: number; capped: boolean | null; now: string }>`
    with chosen as (
      insert into batch_retry_run (batch_id, ordinal, project_id, run_id)
      select ${batch.id}::uuid, row_number() over (order by r.ordinal) - 1, ${projectId}::uuid, r.id
        ${matching(retry_of, choice)} and not ${IS_TRIED_AGAIN}
      returning run_id)
    select count(*)::int as runs, bool_or(r.max_cost_nanousd is not null or r.max_output_tokens is not null) as capped,
           app_now()::text as now
      from chosen c cross join lateral (select max_cost_nanousd, max_output_tokens from run where id = c.run_id offset 0) r
  `.execute(trx);
  const { runs = 0, capped = false, now = '' } = rows[0] ?? {};
  if (runs === 0) throw await refuseNothing(trx, retry_of, choice);
  const budgeted = isLimited(cap) || capped === true;
  const stored = { state: 'receiving', total: runs, accepted: 0, queued: 0, source, budgeted } as const;
  await insertBatch(trx, projectId, batch, stored, now);
  return runs;
}

/** For a run `r`: another batch has tried it again, or is about to. */
const IS_TRIED_AGAIN = sql`exists (
  select from batch_retry_run t join batch b on b.id = t.batch_id
   where t.run_id = r.id and t.skip_reason is null and (t.retry_run_id is not null or b.state = 'receiving'))`;

/** The ended runs `r` of a batch that match. Without ended reasons or ids, they are found among the failures. */
function matching(batchId: string, choice: RetryChoice): RawBuilder<unknown> {
  const { states, ended_reasons, error_group, run_ids } = choice;
  const failures = [
    sql`f.batch_id = ${batchId}::uuid`,
    ...(states === null ? [] : [sql`f.state = ${anyText(states)}`]),
    ...(error_group === null ? [] : [sql`f.fingerprint = ${error_group}`]),
  ];
  const areFailures = error_group !== null || (states !== null && !states.includes('completed'));
  return sql`
    from run r where r.batch_id = ${batchId}::uuid and r.ended_at is not null
     and ${areFailures ? sql`r.id in (select f.run_id from run_failure f where ${sql.join(failures, sql` and `)})` : sql`true`}
     and ${states === null ? sql`true` : sql`r.state = ${anyText(states)}`}
     and ${ended_reasons === null ? sql`true` : sql`r.stop_reason = ${anyText(ended_reasons)}`}
     and ${run_ids === null ? sql`true` : sql`r.id = ${anyUuid(run_ids)}`}`;
}

/** Says why a retry has no runs. */
async function refuseNothing(trx: Tx, batchId: string, choice: RetryChoice): Promise<NightshiftError> {
  const { rows } = await sql<{ runs: number; retry_id: string | null }>`
    select count(*)::int as runs, (array_agg(t.batch_id order by t.batch_id desc))[1] as retry_id
      from (select r.id ${matching(batchId, choice)}) m left join batch_retry_run t on t.run_id = m.id
  `.execute(trx);
  const { runs = 0, retry_id = null } = rows[0] ?? {};
  const message =
    runs === 0 || retry_id === null
      ? `No ended run of job-${batchId} matches, so there is nothing to try again. GET /v1/batches/job-${batchId}/errors lists its failures.`
      : `All matching runs of job-${batchId} are tried again already, the last by job-${retry_id}. Retry that batch instead.`;
  return new NightshiftError('validation_failed', message);
}

/** A run that is tried again, by its ordinal, and the run made for it. */
export interface RetriedRun {
  readonly ordinal: number;
  readonly retry_run_id: string;
}

/** Notes the runs made for runs that are tried again. Index: primary key. */
export async function noteRetriedRuns(
  trx: Tx,
  batchId: string,
  retried: readonly RetriedRun[],
): Promise<void> {
  await sql`
    update batch_retry_run t set retry_run_id = d.retry_run_id
      from json_to_recordset(${JSON.stringify(retried)}::json) as d(ordinal int, retry_run_id uuid)
     where t.batch_id = ${batchId}::uuid and t.ordinal = d.ordinal
  `.execute(trx);
}
