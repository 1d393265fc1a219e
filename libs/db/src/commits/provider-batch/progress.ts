import { sql } from 'kysely';
import { providerBatchMachine, transition, type JsonObject } from '@nightshift/agent-core';
import { fenced, GIVE_LEASE_BACK, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { learnTokens, type TokenSample } from './token-calibrations.ts';
import { learnTurnarounds } from './turnarounds.ts';

/** The result of a poll for one provider batch. */
export interface PolledBatch {
  readonly lease: Lease;
  readonly move: 'ended' | 'wait';
  readonly delay_ms: number;
  readonly missing: boolean;
  /** The error to store after a failed poll, null after an answer. Default: the stored error. */
  readonly error?: JsonObject | null;
  /** Time from its create to its end, to be learnt from. Default: unknown. Unit: milliseconds. */
  readonly turnaround_ms?: number;
}

/**
 * Writes the results of a poll, learns the turnarounds of ended batches, releases the leases, and returns the ids of ended
 * batches. Rows that were taken over are left alone.
 */
export async function commitPolled(trx: Tx, polled: readonly PolledBatch[]): Promise<readonly string[]> {
  if (polled.length === 0) return [];
  const payload = polled.map(({ lease, move, delay_ms, missing, error }) => ({
    id: lease.id,
    epoch: lease.epoch,
    ended: move === 'ended',
    delay_ms,
    missing,
    says: error !== undefined,
    error: error ?? null,
  }));
  const { rows } = await sql<{ id: string; state: string }>`
    with d ${AS_FIRST} (
      select * from json_to_recordset(${JSON.stringify(payload)}::json)
        as d(id uuid, epoch int, ended boolean, delay_ms float8, missing boolean, says boolean, error json)),
    mine ${AS_FIRST} (
      select p.id from provider_batch p join d on d.id = p.id order by p.id for update of p)
    update provider_batch p
       set state = case when d.ended then 'ended' else p.state end,
           ended_at = case when d.ended then app_now() else p.ended_at end,
           missing_since = case when d.missing then coalesce(p.missing_since, app_now()) end,
           error = case when d.says then d.error else p.error end,
           next_due_at = app_now() + d.delay_ms * interval '1 millisecond',
           ${GIVE_LEASE_BACK}
      from d, mine
     where p.id = d.id and p.id = mine.id and p.lease_epoch = d.epoch and p.state in ('submitted', 'cancelling')
    returning p.id, p.state
  `.execute(trx);
  const ended = new Set(rows.filter((row) => row.state === 'ended').map((row) => row.id));
  await learnTurnarounds(
    trx,
    polled.flatMap(({ lease: { id }, turnaround_ms }) =>
      turnaround_ms === undefined || !ended.has(id)
        ? []
        : [{ provider_batch_id: id, duration_ms: turnaround_ms }],
    ),
  );
  return [...ended];
}

/** Notes that the provider was asked to cancel a provider batch. */
export async function commitCancelRequested(trx: Tx, lease: Lease): Promise<void> {
  const to = transition(providerBatchMachine, 'submitted', 'cancel');
  const { rows } = await sql`
    update provider_batch
       set state = ${to}, next_due_at = app_now(), ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'submitted'
    returning 1
  `.execute(trx);
  if (rows.length === 0) throw fenced(lease);
}

/**
 * Ends a provider batch as ingested once every step has left `sealed`, and calibrates tokens from its samples.
 * Returns false, and changes nothing, while a step is open.
 */
export async function commitIngested(trx: Tx, lease: Lease, linesRefused: number): Promise<boolean> {
  const to = transition(providerBatchMachine, 'ended', 'ingest');
  const { rows } = await sql<{ open: boolean }>`
    select exists (select 1 from step where provider_batch_id = p.id and state = 'sealed') as open
      from provider_batch p where p.id = ${lease.id}::uuid and p.lease_epoch = ${lease.epoch} and p.state = 'ended' for update
  `.execute(trx);
  const row = rows[0];
  if (row === undefined) throw fenced(lease);
  if (row.open) return false;
  const { rows: ingested } = await sql<{ token_samples: readonly TokenSample[] | null }>`
    update provider_batch
       set state = ${to}, ingested_at = app_now(), next_due_at = null, streams = streams + 1,
           lines_refused = lines_refused + ${linesRefused}, ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid
    returning token_samples
  `.execute(trx);
  await learnTokens(trx, ingested[0]?.token_samples ?? []);
  return true;
}

/** Schedules another pass after a pass over the results that left steps open, or could not begin. */
export async function commitStreamAgain(
  trx: Tx,
  lease: Lease,
  pass: {
    readonly streamed: boolean;
    /** The provider did not know the results; the time of the first such answer is kept. */
    readonly missing: boolean;
    readonly lines_refused: number;
    readonly reason: string;
    readonly delay_ms: number;
  },
): Promise<void> {
  const { rows } = await sql`
    update provider_batch
       set streams = streams + ${pass.streamed ? 1 : 0}, failures = least(failures + 1, 1000),
           lines_refused = lines_refused + ${pass.lines_refused},
           missing_since = case when ${pass.missing} then coalesce(missing_since, app_now()) end,
           error = ${JSON.stringify({ reason: pass.reason })}::json,
           next_due_at = app_now() + ${pass.delay_ms} * interval '1 millisecond',
           ${GIVE_LEASE_BACK}
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and state = 'ended'
    returning 1
  `.execute(trx);
  if (rows.length === 0) throw fenced(lease);
}
