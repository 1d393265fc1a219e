import {
  NightshiftError,
  providerBatchMachine,
  transition,
  type JsonObject,
  type ProviderBatchState,
} from '@nightshift/agent-core';
import { sql } from 'kysely';
import { GIVE_LEASE_BACK } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import type { WatchedSubmission } from '../../reads/provider-batch/watched-submissions.ts';
import { commitOrphan } from './orphans.ts';

/** An upstream batch whose answer or lines prove the nonce of its submission. */
export interface ProvenBatch {
  readonly provider_id: string;
  readonly expires_at: Date | null;
  readonly of: Omit<WatchedSubmission, 'sent_at'>;
}

/**
 * `known`: a row of ours names it, or it is booked. `taken`: its submission was in doubt and now has it. `corrected`: its
 * submission had adopted another batch, which is released. `orphan`: its submission has been settled otherwise.
 */
export type ProvenOutcome = 'known' | 'taken' | 'corrected' | 'orphan';

interface HeldRow {
  readonly id: string;
  readonly state: ProviderBatchState;
  readonly nonce: string;
  readonly provider_id: string | null;
  readonly unproven: boolean;
}

/**
 * Books an upstream batch that was certainly sent under the nonce of `of`, and releases wrong adoptions.
 * Every changed row gets a new epoch, because its holder decided without this proof. `orphan`: the row to insert if the
 * submission has been settled otherwise; null books nothing.
 * Locks: the provider batches in id order.
 */
export async function commitProven(
  trx: Tx,
  batch: ProvenBatch,
  orphan: { readonly id: string; readonly nonce: string; readonly detail: JsonObject } | null,
): Promise<ProvenOutcome> {
  const { provider_id, of } = batch;
  const rows = await lockHeld(trx, of.nonce, provider_id);
  const owner = rows.find((row) => row.nonce === of.nonce);
  const holder = rows.find((row) => row.provider_id === provider_id);
  if (holder !== undefined && holder !== owner) {
    // A booked orphan, or a row proven by its lines.
    if (!holder.unproven) return 'known';
    await releaseAdoption(trx, holder);
  }
  if (owner !== undefined && owner === holder) {
    await markProven(trx, owner.id);
    return 'known';
  }
  if (owner?.state === 'submitting' || owner?.state === 'unknown') {
    await take(trx, owner.id, owner.state, batch);
    return 'taken';
  }
  if (owner?.unproven === true) {
    await releaseAdoption(trx, owner);
    await take(trx, owner.id, 'unknown', batch);
    return 'corrected';
  }
  if (orphan === null) return 'orphan';
  const isNew = await commitOrphan(trx, { ...orphan, provider_id, of });
  return isNew ? 'orphan' : 'known';
}

/** Locks the row of the nonce and the row that names the batch, in id order, and then reads both. */
async function lockHeld(trx: Tx, nonce: string, providerId: string): Promise<readonly HeldRow[]> {
  const named = sql`p.nonce = ${nonce} or p.provider_id = ${providerId}`;
  await sql`select 1 from provider_batch p where ${named} order by p.id for update`.execute(trx);
  // A separate statement: it sees the commits of earlier lock holders.
  const { rows } = await sql<HeldRow>`
    select p.id, p.state, p.nonce, p.provider_id,
           p.state in ('submitted', 'cancelling', 'ended')
             and exists (select 1 from doubted_submission d where d.nonce = p.nonce and d.outcome = 'adopted')
             and not exists (select 1 from step s where s.provider_batch_id = p.id and s.state <> 'sealed') as unproven
      from provider_batch p where ${named}
  `.execute(trx);
  return rows;
}

/** Releases a wrong adoption: the row searches again. */
async function releaseAdoption(trx: Tx, { id, state }: HeldRow): Promise<void> {
  const to = transition(providerBatchMachine, state, 'disprove');
  const { rows } = await sql`
    update provider_batch
       set state = ${to}, not_ours = not_ours || provider_id, provider_id = null, submitted_at = null, ended_at = null,
           expires_at = null, missing_since = null, streams = 0, failures = 0, searches = 0, next_due_at = app_now(),
           lease_epoch = lease_epoch + 1, ${GIVE_LEASE_BACK}
     where id = ${id}::uuid and state = ${state}
    returning 1
  `.execute(trx);
  if (rows.length === 0) throw changedMeanwhile(id);
}

async function take(
  trx: Tx,
  id: string,
  from: 'submitting' | 'unknown',
  { provider_id, expires_at }: ProvenBatch,
): Promise<void> {
  const to = transition(providerBatchMachine, from, from === 'submitting' ? 'accept' : 'adopt');
  const { rows } = await sql`
    update provider_batch
       set state = ${to}, provider_id = ${provider_id}, expires_at = ${expires_at}::timestamptz, submitted_at = submit_started_at,
           failures = 0, error = null, next_due_at = app_now(),
           lease_epoch = lease_epoch + 1, ${GIVE_LEASE_BACK}
     where id = ${id}::uuid and state = ${from}
    returning 1
  `.execute(trx);
  if (rows.length === 0) throw changedMeanwhile(id);
  await markProven(trx, id);
}

/** The error for a row that came to name the batch after the locks were taken, and has changed since. */
function changedMeanwhile(id: string): NightshiftError {
  return new NightshiftError(
    'fenced',
    `Provider batch ${id} was changed by another worker; the search will be repeated.`,
  );
}

/** Marks the adoption as proven: no further line has to prove it. */
async function markProven(trx: Tx, id: string): Promise<void> {
  await sql`
    update doubted_submission d set outcome = 'proven'
      from provider_batch p where p.id = ${id}::uuid and d.nonce = p.nonce
  `.execute(trx);
}
