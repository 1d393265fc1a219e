import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { GIVE_LEASE_BACK, type Claimant, type Lease } from '../lease.ts';

/**
 * The right to send one create at a time. `failures` counts those in a row that got no answer or were put off; `refusals` those
 * that were refused as bad since the last that was taken, whatever else came between.
 */
export type ClaimedCredential = Lease & { readonly failures: number; readonly refusals: number };

/**
 * Claims the right to send a create under a credential that nobody holds and that is not paused; null otherwise. Passes over
 * one that another claims; who seals for it keeps nobody out.
 */
export async function claimCredential(
  db: Database,
  name: string,
  claimant: Claimant,
): Promise<ClaimedCredential | null> {
  const { rows } = await sql<{ id: string; lease_epoch: number; failures: number; refusals: number }>`
    update credential
       set lease_owner = ${claimant.owner},
           lease_epoch = lease_epoch + 1,
           lease_until = app_now() + ${claimant.lease_duration_ms} * interval '1 millisecond',
           pause_reason = null, paused_until = null
     where name = (select name from credential
                    where name = ${name} and lease_until < app_now() and coalesce(paused_until, '-infinity') <= app_now()
                      for no key update skip locked)
    returning id, lease_epoch, failures, refusals
  `.execute(db);
  const row = rows[0];
  return row === undefined
    ? null
    : {
        table: 'credential',
        id: row.id,
        epoch: row.lease_epoch,
        failures: row.failures,
        refusals: row.refusals,
      };
}

/** What a send taught about the credential. */
export type CredentialVerdict =
  /** The provider took a batch. */
  | { readonly kind: 'works' }
  /** Nothing: none was made, or a body alone was at fault. */
  | { readonly kind: 'unused' }
  /** No create was tried. The credential is paused until a local fault is fixed. */
  | { readonly kind: 'rests'; readonly pause_ms: number; readonly reason: string }
  /** Nobody sends under it until the pause is over; `refused`: because the provider calls what it was sent bad. */
  | { readonly kind: 'failed' | 'refused'; readonly pause_ms: number; readonly reason: string };

/**
 * Gives the credential back with what was learnt. A longer pause, or a halt, that was set meanwhile stays. Does nothing if it was
 * given back or taken over.
 */
export async function releaseCredential(
  db: Database,
  lease: Lease,
  verdict: CredentialVerdict,
): Promise<void> {
  const failed = 'pause_ms' in verdict ? verdict : null;
  await sql`
    update credential
       set ${GIVE_LEASE_BACK},
           failures = case when ${verdict.kind === 'failed'} then least(failures + 1, 1000)
                           when ${verdict.kind === 'unused' || verdict.kind === 'rests'} then failures else 0 end,
           refusals = case when ${verdict.kind === 'works'} then 0
                           when ${verdict.kind === 'refused'} then least(refusals + 1, 1000) else refusals end,
           -- A claim clears what is over, so a pause that is there now was set under this lease.
           paused_until = greatest(paused_until, app_now() + ${failed?.pause_ms ?? null}::float8 * interval '1 millisecond'),
           pause_reason = case when paused_until > coalesce(
                                      app_now() + ${failed?.pause_ms ?? null}::float8 * interval '1 millisecond', '-infinity')
                               then pause_reason else ${failed?.reason ?? null} end
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and lease_owner is not null
  `.execute(db);
}
