import { NightshiftError } from '@nightshift/agent-core';
import { releaseLeases, renewLeases, type Claimant, type Database, type Lease } from '@nightshift/db';

/** A lease under renewal. */
export interface HeldLease extends Lease {
  /** Aborted when the lease is lost, or was not renewed for two thirds of its duration. */
  readonly signal: AbortSignal;
}

/** Renews the leases of this process. Database time decides ownership; the local clocks only decide when trust ends. */
export interface LeaseKeeper {
  /** Starts to renew a fresh claim. */
  hold(lease: Lease): HeldLease;
  /**
   * Renews the lease now and sets the duration of later renewals.
   * Throws: `fenced` when another process took the lease.
   */
  extend(lease: Lease, durationMs: number): Promise<void>;
  /** Milliseconds for which the lease certainly lasts, by both local clocks; 0 when it is not held. */
  remainingMs(lease: Lease): number;
  /** Ends the renewal of a lease that a commit has given back. */
  forget(lease: Lease): void;
  /**
   * Ends the renewal and gives the row back, due at once or after `dueInMs`.
   * Throws: the database's error. The release is then retried until it succeeds, so that the row does not count as a crash.
   */
  release(lease: Lease, dueInMs?: number): Promise<void>;
  /** As `release`, for rows of one table, in one statement. */
  releaseAll(leases: readonly Lease[], dueInMs?: number): Promise<void>;
  /** As `release`, with the caller's statement. It must be idempotent: it is retried until the database answers. */
  releaseBy(lease: Lease, giveBack: () => Promise<void>): Promise<void>;
  /** Aborted once `abandon` or `close` gives up all leases. */
  readonly lettingGo: AbortSignal;
  /** Treats every lease as lost: flows stop at their next step. */
  abandon(): void;
  /** Ends all renewal and aborts the signals of all held leases. */
  close(): void;
}

interface Entry {
  readonly lease: Lease;
  readonly abort: AbortController;
  durationMs: number;
  /** Start of the last successful renewal request. */
  renewedAt: Moment;
}

/** A moment by both clocks of this machine. */
interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

const thisMoment = (): Moment => ({ monotonic: performance.now(), wall: Date.now() });

/**
 * Milliseconds since `then`, by the clock that shows more. The monotonic clock stops while the machine sleeps, and the wall
 * clock may be set back. Losing a lease too early costs a little work; trusting it too long may cost a second payment.
 */
const msSince = (then: Moment): number =>
  Math.max(performance.now() - then.monotonic, Date.now() - then.wall);

const TICKS_PER_LEASE = 12;

interface State {
  readonly db: Database;
  readonly claimant: Claimant;
  /** Leases under renewal, by `keyOf`. */
  readonly entries: Map<string, Entry>;
  /** Releases that failed and are retried, by the keys of their leases. */
  readonly failedReleases: Map<string, () => Promise<void>>;
  readonly abandoned: AbortController;
  isRenewing: boolean;
  isReleasing: boolean;
  renewedAllAt: Moment;
  lastTurn: Promise<unknown>;
}

/**
 * Starts a keeper that renews at every third of a lease's duration, with one statement per table and duration. A row that
 * another transaction has locked delays no other lease: its renewal is retried at the next tick.
 *
 * Trust in a lease ends by the local clocks, checked apart from renewals and more often. So neither a dead connection nor
 * a stalled process lets a flow rely on a lease that another worker may have taken.
 */
export function createLeaseKeeper(db: Database, claimant: Claimant): LeaseKeeper {
  const state: State = {
    db,
    claimant,
    entries: new Map(),
    failedReleases: new Map(),
    abandoned: new AbortController(),
    isRenewing: false,
    isReleasing: false,
    renewedAllAt: thisMoment(),
    lastTurn: Promise.resolve(),
  };
  const { entries, abandoned } = state;
  const timer = setInterval(() => tick(state), claimant.lease_duration_ms / TICKS_PER_LEASE).unref();
  const abandon = (): void => {
    abandoned.abort();
    for (const [key, entry] of entries) lose(state, key, entry);
  };
  return {
    hold: (lease) => hold(state, lease),
    extend: (lease, durationMs) => extend(state, lease, durationMs),
    remainingMs(lease) {
      const entry = entries.get(keyOf(lease));
      return entry === undefined ? 0 : Math.max(0, entry.durationMs - msSince(entry.renewedAt));
    },
    forget(lease) {
      entries.delete(keyOf(lease));
    },
    release: (lease, dueInMs) =>
      releaseOrRetry(state, [lease], () => releaseLeases(db, lease.table, [lease], dueInMs ?? null)),
    async releaseAll(leases, dueInMs) {
      const [first] = leases;
      if (first === undefined) return;
      await releaseOrRetry(state, leases, () => releaseLeases(db, first.table, leases, dueInMs ?? null));
    },
    releaseBy: (lease, giveBack) => releaseOrRetry(state, [lease], giveBack),
    lettingGo: abandoned.signal,
    abandon,
    close() {
      clearInterval(timer);
      state.failedReleases.clear();
      abandon();
    },
  };
}

function tick(state: State): void {
  if (state.failedReleases.size > 0 && !state.isReleasing) {
    state.isReleasing = true;
    void retryReleases(state)
      // The database is away: the next tick tries again.
      .catch(() => undefined)
      .finally(() => {
        state.isReleasing = false;
      });
  }
  // Before the renewal: while this process was stalled, another worker may have taken a lapsed lease.
  loseOverdue(state);
  const isDue = msSince(state.renewedAllAt) >= state.claimant.lease_duration_ms / 3;
  if (!isDue || state.isRenewing || state.entries.size === 0) return;
  state.isRenewing = true;
  void inTurn(state, () => renewAll(state)).finally(() => {
    state.isRenewing = false;
  });
}

/** Runs renewals and extensions one at a time, so that a shorter renewal never lands after a longer extension. */
function inTurn<T>(state: State, work: () => Promise<T>): Promise<T> {
  const turn = state.lastTurn.then(work);
  state.lastTurn = turn.catch(() => undefined);
  return turn;
}

function keyOf(lease: Lease): string {
  return `${lease.table}/${lease.id}/${lease.epoch}`;
}

function lostLease({ table, id }: Lease): NightshiftError {
  return new NightshiftError('fenced', `The lease on ${table} ${id} was lost.`);
}

function lose({ entries }: State, key: string, entry: Entry): void {
  entries.delete(key);
  entry.abort.abort(lostLease(entry.lease));
}

/** Loses each lease that was not renewed in time, whatever the database would say. */
function loseOverdue(state: State): void {
  for (const [key, entry] of state.entries) {
    if (msSince(entry.renewedAt) > (entry.durationMs * 2) / 3) lose(state, key, entry);
  }
}

function hold(state: State, lease: Lease): HeldLease {
  const { entries, claimant } = state;
  for (const [key, earlier] of entries) {
    // A second claim of the same row: the first claim had lapsed unnoticed.
    if (earlier.lease.table === lease.table && earlier.lease.id === lease.id) lose(state, key, earlier);
  }
  const abort = new AbortController();
  const durationMs = claimant.lease_duration_ms;
  entries.set(keyOf(lease), { lease, abort, durationMs, renewedAt: thisMoment() });
  return { ...lease, signal: abort.signal };
}

async function extend(state: State, lease: Lease, durationMs: number): Promise<void> {
  const entry = state.entries.get(keyOf(lease));
  if (entry === undefined) throw lostLease(lease);
  await inTurn(state, async () => {
    await renewGroup(state, [entry], lease.table, durationMs, 'wait');
    entry.durationMs = durationMs;
  });
  entry.abort.signal.throwIfAborted();
}

async function renewAll(state: State): Promise<void> {
  const askedAt = thisMoment();
  const groups = Map.groupBy(state.entries.values(), (entry) => `${entry.lease.table} ${entry.durationMs}`);
  const ends = await Promise.allSettled(
    [...groups.values()].map(async (group) => {
      const [first] = group;
      return (
        first === undefined || renewGroup(state, group, first.lease.table, first.durationMs, 'pass over')
      );
    }),
  );
  // A failed or skipped renewal leaves `renewedAllAt` as it was, so the next tick tries again.
  if (ends.every((end) => end.status === 'fulfilled' && end.value)) state.renewedAllAt = askedAt;
}

/** Renews leases of one table; false when a locked row was skipped. */
async function renewGroup(
  state: State,
  group: readonly Entry[],
  table: Lease['table'],
  durationMs: number,
  whenLocked: 'wait' | 'pass over',
): Promise<boolean> {
  const { db, claimant, entries } = state;
  const askedAt = thisMoment();
  const { renewed, passed_over } = await renewLeases(
    db,
    table,
    group.map((entry) => entry.lease),
    { owner: claimant.owner, lease_duration_ms: durationMs },
    whenLocked,
  );
  for (const entry of group) {
    const key = keyOf(entry.lease);
    if (entries.get(key) !== entry) continue;
    if (renewed.has(entry.lease.id)) entry.renewedAt = askedAt;
    else if (!passed_over.has(entry.lease.id)) lose(state, key, entry);
  }
  return passed_over.size === 0;
}

async function releaseOrRetry(
  { entries, failedReleases }: State,
  leases: readonly Lease[],
  giveBack: () => Promise<void>,
): Promise<void> {
  const keys = leases.map(keyOf);
  for (const key of keys) entries.delete(key);
  try {
    await giveBack();
  } catch (error) {
    failedReleases.set(keys.join(' '), giveBack);
    throw error;
  }
}

async function retryReleases({ failedReleases }: State): Promise<void> {
  for (const [key, giveBack] of failedReleases) {
    failedReleases.delete(key);
    try {
      await giveBack();
    } catch (error) {
      // To the end of the queue: the other releases may still succeed.
      failedReleases.set(key, giveBack);
      throw error;
    }
  }
}
