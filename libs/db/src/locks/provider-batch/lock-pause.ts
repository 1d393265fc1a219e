import { sql } from 'kysely';
import type { Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';

/**
 * Milliseconds until the credential's pause is over, `msMax` at most; 0 when it is not paused. Locks one that is paused for
 * share, before any batch: whoever resumes it finds what the caller puts off, or the caller finds it resumed. Nobody can claim
 * a credential that is paused, so that none is kept from it.
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
 * True when a credential is still the caller's and has not been halted or paused since it was claimed: a claim clears what is
 * over. Locks it for share, before any batch: a halt or pause that comes later waits for the caller's commit.
 */
export async function lockUsable(trx: Tx, lease: Lease): Promise<boolean> {
  const { rows } = await sql`
    select 1 from credential
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} and coalesce(paused_until, '-infinity') <= app_now()
       for share
  `.execute(trx);
  return rows.length > 0;
}
