import type { ProviderBatchState } from '@nightshift/agent-core';
import { sql, type RawBuilder, type Selectable } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { IS_DUE } from '../../reads/due-conditions.ts';
import type { DB } from '../../tables.ts';
import { fenced, LAST_HOLDER, leasedTo, type Claimant, type Lease } from '../lease.ts';

export type ProviderBatchRow = Selectable<DB['provider_batch']>;

/**
 * Leases a provider batch and counts consecutive crashes, that is, expired leases. An orderly release after the start of
 * the work resets the count and the suspect. Building and ingesting count as work; a poll does not.
 */
const leasedInTurnTo = (claimant: Claimant): RawBuilder<unknown> =>
  sql`${leasedTo(claimant)}, untried = state in ('building', 'ended'),
      crash_count = case when holder is not null then least(crash_count + 1, 1000) when untried then crash_count else 0 end,
      suspect = case when holder is not null or untried then suspect end`;

/** A claimed provider batch; `taken_over_from` names the last holder if its lease expired. */
export type ClaimedProviderBatch = ProviderBatchRow & { readonly taken_over_from: string | null };

/**
 * Claims up to `limit` due provider batches in one of `states`, longest due first.
 * The caller ends with a commit that carries the epoch, or a release.
 * Locks: the rows, with skip locked. Index: `provider_batch_due`.
 */
export async function claimDueProviderBatches(
  db: Database,
  states: readonly ProviderBatchState[],
  limit: number,
  claimant: Claimant,
): Promise<readonly ClaimedProviderBatch[]> {
  const { rows } = await sql<ClaimedProviderBatch>`
    with ${leasing(states, limit, claimant)} select * from claimed
  `.execute(db);
  return rows;
}

/** The CTE `claimed`: leases the due provider batches, each with the last holder of an expired lease. */
function leasing(
  states: readonly ProviderBatchState[],
  limit: number,
  claimant: Claimant,
): RawBuilder<unknown> {
  return sql`
    due ${AS_FIRST} (
      select id, ${LAST_HOLDER}
        from provider_batch
       where state = any(${states}::text[]) and ${IS_DUE}
       order by next_due_at, id
       limit ${limit}
         for update skip locked),
    claimed as (
      update provider_batch p
         set ${leasedInTurnTo(claimant)}
        from due
       where p.id = due.id
      returning p.*, due.holder as taken_over_from)`;
}

/** Claimed provider batches, and the time until the next. */
interface ClaimedAndNext {
  readonly batches: readonly ClaimedProviderBatch[];
  /** The database's time of the claim. */
  readonly now: Date;
  /** Time until the next provider batch is due; null when none waits. Unit: ms. */
  readonly next_in_ms: number | null;
}

type MaybeClaimed = ClaimedProviderBatch | Record<keyof ClaimedProviderBatch, null>;

/** Claims like {@link claimDueProviderBatches} and reads the time until the next is due, in one statement. */
async function claimDueAndNext(
  db: Database,
  states: readonly ProviderBatchState[],
  limit: number,
  claimant: Claimant,
): Promise<ClaimedAndNext> {
  const { rows } = await sql<MaybeClaimed & { now: Date; next_in_ms: number | null }>`
    with ${leasing(states, limit, claimant)},
    clock ${AS_FIRST} (select app_now() as now),
    later as (
      select (extract(epoch from min(p.next_due_at) - min(t.now)) * 1000)::float8 as next_in_ms
        from clock t join provider_batch p on p.state = any(${states}::text[]) and p.next_due_at > t.now)
    select c.*, t.now, l.next_in_ms from clock t cross join later l left join claimed c on true
  `.execute(db);
  return splitClaimed(rows);
}

/** Separates the claimed provider batches from the time, which every row repeats. */
function splitClaimed(
  rows: readonly (MaybeClaimed & { readonly now: Date; readonly next_in_ms: number | null })[],
): ClaimedAndNext {
  const [first] = rows;
  if (first === undefined) throw new Error('The database returned no row for its clock.');
  return {
    batches: rows.filter((row) => row.id !== null),
    now: first.now,
    next_in_ms: first.next_in_ms,
  };
}

/** Provider batches due for a poll, and the time until the next poll; no signal announces polls. */
export type ClaimedPolls = ClaimedAndNext;

/** Claims up to `limit` provider batches that are due for a poll. Index: `provider_batch_due`. */
export function claimDuePolls(db: Database, limit: number, claimant: Claimant): Promise<ClaimedPolls> {
  return claimDueAndNext(db, ['submitted', 'cancelling'], limit, claimant);
}

/** The parameters of a look. */
export interface LookClaim {
  readonly credential: string;
  /** Time for which the claim keeps other looks away. Unit: milliseconds. */
  readonly spacing_ms: number;
  /** Batches due within this time share the look. Unit: milliseconds. */
  readonly ahead_ms: number;
}

/**
 * Claims the next look at submitted provider batches, over all workers: like {@link claimDuePolls}, but nothing while the
 * last look of the credential is too recent. A batch that is due makes a look; batches that will be due soon share it.
 * After a crash of the caller the spacing still ends.
 * Locks: the credential and the rows, with skip locked. Index: `provider_batch_due`.
 */
export async function claimLooks(
  db: Database,
  limit: number,
  claimant: Claimant,
  { credential, spacing_ms, ahead_ms }: LookClaim,
): Promise<ClaimedPolls> {
  const isPolled = sql`state in ('submitted', 'cancelling')`;
  const { rows } = await sql<MaybeClaimed & { now: Date; next_in_ms: number | null }>`
    with clock ${AS_FIRST} (select app_now() as now),
    gate ${AS_FIRST} (
      select id from credential
       where name = ${credential} and coalesce(look_from, '-infinity') <= app_now()
         and exists (select from provider_batch where ${isPolled} and ${IS_DUE})
         for no key update skip locked),
    due ${AS_FIRST} (
      select id, ${LAST_HOLDER}
        from provider_batch
       where exists (select from gate) and ${isPolled} and lease_until < app_now()
         and next_due_at <= app_now() + case when missing_since is null then ${ahead_ms} else 0 end * interval '1 millisecond'
       order by next_due_at, id
       limit ${limit}
         for update skip locked),
    claimed as (
      update provider_batch p
         set ${leasedInTurnTo(claimant)}
        from due
       where p.id = due.id
      returning p.*, due.holder as taken_over_from),
    charged as (
      update credential c
         set look_from = app_now() + ${spacing_ms} * interval '1 millisecond'
        from gate
       where c.id = gate.id and exists (select from claimed)),
    later as (
      select (extract(epoch from greatest(min(p.next_due_at), min(c.look_from)) - min(t.now)) * 1000)::float8 as next_in_ms
        from clock t
        join credential c on c.name = ${credential}
        join provider_batch p on p.state in ('submitted', 'cancelling')
       where p.id not in (select id from due))
    select c.*, t.now, l.next_in_ms from clock t cross join later l left join claimed c on true
  `.execute(db);
  return splitClaimed(rows);
}

/** The next provider batch to send, and the time until another is due; no signal announces the end of a pause. */
export interface ClaimedSend {
  readonly batch: ClaimedProviderBatch | null;
  /** Time until the next provider batch is due; null when none waits. Unit: ms. */
  readonly next_in_ms: number | null;
}

/** Claims one provider batch that is built and due to be sent. Index: `provider_batch_due`. */
export async function claimDueSend(db: Database, claimant: Claimant): Promise<ClaimedSend> {
  const { batches, next_in_ms } = await claimDueAndNext(db, ['building'], 1, claimant);
  return { batch: batches[0] ?? null, next_in_ms };
}

/** Claims one provider batch by id, due or not, if it is in `state` and has no holder. */
export async function claimProviderBatch(
  db: Database,
  id: string,
  state: ProviderBatchState,
  claimant: Claimant,
): Promise<ClaimedProviderBatch | null> {
  const { rows } = await sql<ClaimedProviderBatch>`
    with free ${AS_FIRST} (
      select id, ${LAST_HOLDER}
        from provider_batch
       where id = ${id}::uuid and state = ${state} and lease_until < app_now()
         for update skip locked)
    update provider_batch p
       set ${leasedInTurnTo(claimant)}
      from free
     where p.id = free.id
    returning p.*, free.holder as taken_over_from
  `.execute(db);
  return rows[0] ?? null;
}

/**
 * Notes a request or line before a worker tries it alone, so that a crash counts against it. Returns its consecutive tries,
 * including this one.
 * Throws: `fenced`.
 */
export async function noteSuspect(
  db: Database,
  lease: Lease,
  { suspect: before, suspect_tries }: Pick<ClaimedProviderBatch, 'suspect' | 'suspect_tries'>,
  suspect: string,
): Promise<number> {
  const tries = suspect === before ? Math.min(suspect_tries + 1, 1_000) : 1;
  const { numUpdatedRows } = await updateHeld(db, lease)
    .set({ suspect, suspect_tries: tries })
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw fenced(lease);
  return tries;
}

/**
 * Notes that the holder begins to work on a provider batch after crashes; a release from now on resets the crash count.
 * Throws: `fenced`.
 */
export async function noteTried(db: Database, lease: Lease): Promise<void> {
  const { numUpdatedRows } = await updateHeld(db, lease).set({ untried: false }).executeTakeFirst();
  if (numUpdatedRows === 0n) throw fenced(lease);
}

/** Resets the crash count after progress: a line was applied. */
export async function resetCrashCount(db: Database, lease: Lease): Promise<void> {
  await updateHeld(db, lease).set({ crash_count: 0 }).execute();
}

/** Starts an update of a provider batch that is still leased to the caller. */
const updateHeld = (db: Database, lease: Lease) =>
  db.updateTable('provider_batch').where('id', '=', lease.id).where('lease_epoch', '=', lease.epoch);
