import { NightshiftError } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database, Tx } from '../connect.ts';
import { AS_FIRST } from '../fragments.ts';
import type { LeasedTable } from '../tables.ts';

/** A row and the epoch of its lease. Writes under a lease carry the epoch, which fences overtaken holders. */
export interface Lease {
  readonly table: LeasedTable;
  readonly id: string;
  readonly epoch: number;
}

/** The process that claims, and the duration of its leases. */
export interface Claimant {
  /** Identifies one process; used by {@link releaseAllLeases}. */
  readonly owner: string;
  readonly lease_duration_ms: number;
}

/** Selects as `holder` the owner of an expired lease, null after a release; for rows about to be leased. */
export const LAST_HOLDER = sql`case when lease_until > '-infinity' then lease_owner end as holder`;

/**
 * Releases a lease in the update that ends the work on a row. `-infinity` keeps the column comparable without nulls, and
 * distinguishes a release from an expired lease, whose holder {@link LAST_HOLDER} selects.
 */
export const GIVE_LEASE_BACK = sql`lease_until = '-infinity', lease_owner = null`;

/**
 * The assignments of a claim, in an update from rows with {@link LAST_HOLDER}: a new epoch, and one more takeover after an
 * expired lease. With `inARow` an orderly release resets the takeovers.
 */
export function leasedTo({ owner, lease_duration_ms }: Claimant, inARow = false): RawBuilder<unknown> {
  const before = inARow ? sql`case when holder is null then 0 else takeovers end` : sql`takeovers`;
  return sql`lease_owner = ${owner}, lease_epoch = lease_epoch + 1,
             lease_until = app_now() + ${lease_duration_ms} * interval '1 millisecond',
             takeovers = ${before} + (holder is not null)::int`;
}

/**
 * Proves inside a transaction that the lease is still ours, and blocks takeovers until the transaction ends.
 * Throws: `fenced` when the row was taken over or deleted.
 * Locks: `for key share`, so that commits of one holder and lease renewals run in parallel, while claims skip the row.
 */
export async function holdLease(trx: Tx, lease: Lease): Promise<void> {
  const { rows } = await sql`
    select 1 from ${sql.table(lease.table)} where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} for key share
  `.execute(trx);
  if (rows.length === 0) throw fenced(lease);
}

/** The error of a write without a valid lease. */
export function fenced(lease: Lease): NightshiftError {
  return new NightshiftError(
    'fenced',
    `The lease on ${lease.table} ${lease.id} (epoch ${lease.epoch}) has been taken over.`,
  );
}

/** The result of a renewal; a lease in neither set is lost. */
export interface Renewal {
  readonly renewed: ReadonlySet<string>;
  /** Leases not renewed because another transaction has locked the row; they may be lost by now. */
  readonly passed_over: ReadonlySet<string>;
}

/**
 * Renews leases by database time, one statement per table, and returns the renewed ids.
 * Locks: the rows in id order; `pass over` skips locked rows, so that one row delays no other.
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
  // After a wait, a row that was not renewed has been taken over.
  return { renewed: ids(true), passed_over: whenLocked === 'wait' ? new Set() : ids(false) };
}

/** Releases a lease, due in `dueInMs`. Default: due as before. Does nothing after a release or takeover. */
export function releaseLease(db: Database, lease: Lease, dueInMs: number | null = null): Promise<void> {
  return releaseLeases(db, lease.table, [lease], dueInMs);
}

/** Releases leases of one table in one statement, like {@link releaseLease}. Locks: the rows in id order. */
export async function releaseLeases(
  db: Database,
  table: LeasedTable,
  leases: readonly Lease[],
  dueInMs: number | null = null,
): Promise<void> {
  if (leases.length === 0) return;
  // Credentials have no due time.
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

/** Assignments of a release per table. An ended row is never due: only due rows, now or later, can be held. */
const GIVEN_BACK: Readonly<Record<LeasedTable, RawBuilder<unknown>>> = {
  batch: sql`and next_due_at is not null`,
  provider_batch: sql`and next_due_at is not null and state <> 'submitting'`,
  run_chunk: sql``,
  forgotten_batch: sql`and next_due_at is not null`,
  credential: sql`and not exists (select from provider_batch p
                                  where p.state = 'submitting' and p.next_due_at is not null
                                    and p.credential = t.name and p.lease_owner = t.lease_owner)`,
};

/**
 * Releases every lease of `owner` at a clean stop.
 * A provider batch in `submitting` and its credential stay leased: the sender relies on the leases it took before the send.
 * Index: `batch_due`, `provider_batch_due`.
 */
export async function releaseAllLeases(db: Database, owner: string): Promise<void> {
  for (const table of Object.keys(GIVEN_BACK) as LeasedTable[]) {
    await sql`
      update ${sql.table(table)} t set ${GIVE_LEASE_BACK}
       where lease_owner = ${owner} ${GIVEN_BACK[table]}
    `.execute(db);
  }
}
