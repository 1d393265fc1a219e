import { sql } from 'kysely';
import type { Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';

/**
 * Reads the time until the credential's pause ends, at most `msMax`; 0 without a pause. Unit: ms.
 * Locks: a paused credential for share, before any batch, so that a resume finds the caller's put-off batches, or the
 * caller finds the resume. No claim is delayed, because paused credentials cannot be claimed.
 */
export async function lockPauseMs(trx: Tx, name: string, msMax: number): Promise<number> {
  const { rows } = await sql<{ ms: number }>`
    select (extract(epoch from least(paused_until, now + ${msMax} * interval '1 millisecond') - now) * 1000)::float8 as ms
      from credential, app_now() as now where name = ${name} and paused_until > now
       for share of credential
  `.execute(trx);
  return rows[0]?.ms ?? 0;
}

/**
 * True when the caller still holds a credential that was not halted or paused since its claim, which clears expired pauses.
 * Locks: the credential for share, before any batch, so that a later halt or pause waits for the caller's commit.
 */
export async function lockUsable(trx: Tx, lease: Lease): Promise<boolean> {
  const { rows } = await sql`
    select 1 from credential
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and coalesce(paused_until, '-infinity') <= app_now()
       for share
  `.execute(trx);
  return rows.length > 0;
}
