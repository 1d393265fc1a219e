import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { GIVE_LEASE_BACK, type Claimant, type Lease } from '../lease.ts';

/**
 * The right to send creates, one at a time. `failures`: consecutive creates without an answer or put off. `refusals`:
 * creates refused as bad since the last accepted create, whatever came between.
 */
export type ClaimedCredential = Lease & { readonly failures: number; readonly refusals: number };

/**
 * Claims a credential that has no holder and is not paused; null otherwise. Skips a row that another claimant has locked; a
 * sealing does not block it.
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

/** The outcome of a send for its credential. */
export type CredentialVerdict =
  /** The provider accepted a batch. */
  | { readonly kind: 'works' }
  /** No verdict: no create was sent, or only its body was at fault. */
  | { readonly kind: 'unused' }
  /** No create was tried: the credential is paused until a local fault is fixed. */
  | { readonly kind: 'rests'; readonly pause_ms: number; readonly reason: string }
  /** The credential is paused; `refused`: the provider called the request bad. */
  | { readonly kind: 'failed' | 'refused'; readonly pause_ms: number; readonly reason: string };

/**
 * Releases the credential with the verdict. A longer pause, or a halt, set meanwhile stays. Does nothing for a lease that
 * was released or taken over.
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
           -- A claim clears expired pauses, so a present pause was set under this lease.
           paused_until = greatest(paused_until, app_now() + ${failed?.pause_ms ?? null}::float8 * interval '1 millisecond'),
           pause_reason = case when paused_until > coalesce(
                                      app_now() + ${failed?.pause_ms ?? null}::float8 * interval '1 millisecond', '-infinity')
                               then pause_reason else ${failed?.reason ?? null} end
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and lease_owner is not null
  `.execute(db);
}
