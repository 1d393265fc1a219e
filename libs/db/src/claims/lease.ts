import { NightshiftError } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database, Tx } from '../connect.ts';
import { AS_FIRST } from '../fragments.ts';

/** The tables whose rows are leased: coarse ones only, never a run or a step. */
export type LeasedTable = 'batch' | 'provider_batch' | 'run_chunk' | 'credential';

/** Who holds a row, in which epoch. Every write under a lease carries the epoch, so a holder that was overtaken is refused. */
export interface Lease {
  readonly table: LeasedTable;
  readonly id: string;
  readonly epoch: number;
}

/** Who claims, and for how long. */
export interface Claimant {
  /** One process alone: {@link releaseAllLeases} goes by it. */
  readonly owner: string;
  readonly lease_duration_ms: number;
}

/** Of a row that is to be leased, as `holder`: who let its lease run out, or null where it was given back. */
export const LAST_HOLDER = sql`case when lease_until > '-infinity' then lease_owner end as holder`;

/**
 * Gives a lease back in the update that ends the work on a row. Never null, so that claims compare one column with the time;
 * `-infinity` distinguishes it from a lease that ran out, whose holder {@link LAST_HOLDER} names.
 */
export const GIVE_LEASE_BACK = sql`lease_until = '-infinity', lease_owner = null`;

/**
 * What leasing a row sets, in an update from rows with {@link LAST_HOLDER}: a new epoch, and one takeover more where there is
 * one. `inARow`: a holder that gave it back in order begins their count anew.
 */
export function leasedTo({ owner, lease_duration_ms }: Claimant, inARow = false): RawBuilder<unknown> {
  const before = inARow ? sql`case when holder is null then 0 else takeovers end` : sql`takeovers`;
  return sql`lease_owner = ${owner}, lease_epoch = lease_epoch + 1,
             lease_until = app_now() + ${lease_duration_ms} * interval '1 millisecond',
             takeovers = ${before} + (holder is not null)::int`;
}

/**
 * Proves inside a transaction that the lease is still ours, and keeps a takeover out until it ends. `for key share`:
 * several chunks of one holder may commit side by side and none of them holds the renewal up, while the claims, which
 * skip locked rows, pass the row over. Throws `fenced` when the row was taken over or is gone.
 */
export async function holdLease(trx: Tx, lease: Lease): Promise<void> {
  const { rows } = await sql`
    select 1 from ${sql.table(lease.table)} where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} for key share
  `.execute(trx);
  if (rows.length === 0) throw fenced(lease);
}

/** The error of a write that a lease no longer covers. */
export function fenced(lease: Lease): NightshiftError {
  return new NightshiftError(
    'fenced',
    `The lease on ${lease.table} ${lease.id} (epoch ${lease.epoch}) has been taken over.`,
  );
}

/** What a renewal did; a lease in neither set is held no longer. */
export interface Renewal {
  readonly renewed: ReadonlySet<string>;
  /** Somebody has locked the row: its lease lasts as long as before, and may be lost by now. */
  readonly passed_over: ReadonlySet<string>;
}

/**
 * Prolongs leases with one statement a table, and says of which. Database time decides. Locks the rows in id order, as
 * everybody does; `pass over`: those that can be locked at once, so that one row holds up no other.
 */
export async function renewLeases(
  db: Database,
  table: LeasedTable,
  leases: readonly Lease[],
  claimant: Claimant,
  whenLocked: 'wait' | 'pass over',
): Promise<Renewal> {
  if (leases.length === 0) return { renewed: new Set(), passed_over: new Set() };
  const { rows } = await sql<{ id: string; is_renewed: boolean }>`
    with ours ${AS_FIRST} (
      select t.id, t.lease_epoch from ${sql.table(table)} t
        join unnest(${leases.map((lease) => lease.id)}::uuid[], ${leases.map((lease) => lease.epoch)}::int[]) as m(id, epoch)
          on t.id = m.id and t.lease_epoch = m.epoch
       where t.lease_owner = ${claimant.owner}),
    free ${AS_FIRST} (
      select t.id from ${sql.table(table)} t join ours o on o.id = t.id and o.lease_epoch = t.lease_epoch
       where t.lease_owner = ${claimant.owner}
       order by t.id
         for no key update of t ${whenLocked === 'wait' ? sql`` : sql`skip locked`}),
    renewed as (
      update ${sql.table(table)} t
         set lease_until = app_now() + ${claimant.lease_duration_ms} * interval '1 millisecond'
        from free
       where t.id = free.id
      returning t.id)
    select o.id, r.id is not null as is_renewed from ours o left join renewed r on r.id = o.id
  `.execute(db);
  const ids = (isRenewed: boolean): ReadonlySet<string> =>
    new Set(rows.filter((row) => row.is_renewed === isRenewed).map((row) => row.id));
  // Who has waited for a row and not renewed it has found it taken over.
  return { renewed: ids(true), passed_over: whenLocked === 'wait' ? new Set() : ids(false) };
}

/** Gives a row back at once, due at `dueInMs` from now (default: as it was). Does nothing if it was given back or taken over. */
export function releaseLease(db: Database, lease: Lease, dueInMs: number | null = null): Promise<void> {
  return releaseLeases(db, lease.table, [lease], dueInMs);
}

/** As {@link releaseLease}, for rows of one table, in one statement. Locks them in id order. */
export async function releaseLeases(
  db: Database,
  table: LeasedTable,
  leases: readonly Lease[],
  dueInMs: number | null = null,
): Promise<void> {
  if (leases.length === 0) return;
  // Nobody waits for a credential by a time of its own.
  const isDue = table !== 'credential' && dueInMs !== null;
  await sql`
    with ours ${AS_FIRST} (
      select t.id, t.lease_epoch from ${sql.table(table)} t
        join unnest(${leases.map((lease) => lease.id)}::uuid[], ${leases.map((lease) => lease.epoch)}::int[]) as m(id, epoch)
          on t.id = m.id and t.lease_epoch = m.epoch
       where t.lease_owner is not null
       order by t.id
         for no key update of t)
    update ${sql.table(table)} t
       set ${GIVE_LEASE_BACK}
           ${isDue ? sql`, next_due_at = case when t.next_due_at is not null then app_now() + ${dueInMs} * interval '1 millisecond' end` : sql``}
      from ours
     where t.id = ours.id and t.lease_epoch = ours.lease_epoch and t.lease_owner is not null
  `.execute(db);
}

/** What is over nobody holds, and it is due at no time: what is held is found among what is due, or will be. */
const GIVEN_BACK: Readonly<Record<LeasedTable, RawBuilder<unknown>>> = {
  batch: sql`and next_due_at is not null`,
  provider_batch: sql`and next_due_at is not null and state <> 'submitting'`,
  run_chunk: sql``,
  credential: sql`and not exists (select from provider_batch p
                                  where p.state = 'submitting' and p.next_due_at is not null
                                    and p.credential = t.name and p.lease_owner = t.lease_owner)`,
};

/**
 * Gives back everything that `owner` holds, so that a clean stop delays nobody.
 * A batch on its way to the provider stays leased, and so does its credential: whoever sends it counts on the leases that it
 * took before the send. Index: `batch_due` and `provider_batch_due`.
 */
export async function releaseAllLeases(db: Database, owner: string): Promise<void> {
  for (const table of ['batch', 'provider_batch', 'run_chunk', 'credential'] as const) {
    await sql`
      update ${sql.table(table)} t set ${GIVE_LEASE_BACK}
       where lease_owner = ${owner} ${GIVEN_BACK[table]}
    `.execute(db);
  }
}
