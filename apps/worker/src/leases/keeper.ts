import { NightshiftError } from '@nightshift/agent-core';
import { releaseLeases, renewLeases, type Claimant, type Database, type Lease } from '@nightshift/db';

/** A lease under renewal. */
export interface HeldLease extends Lease {
  /** Aborted when the lease is lost, or when it could not be renewed for two thirds of its time. */
  readonly signal: AbortSignal;
}

/** Keeps the leases of this process alive. Database time decides who holds; this clock only decides when to stop trusting. */
export interface LeaseKeeper {
  /** Takes a fresh claim into renewal. */
  hold(lease: Lease): HeldLease;
  /** Renews now, for `durationMs` from now on and at every later renewal. Throws `fenced` when it was taken over. */
  extend(lease: Lease, durationMs: number): Promise<void>;
  /** Milliseconds for which the lease certainly lasts, by both clocks of this machine; 0 when it is not held. */
  remainingMs(lease: Lease): number;
  /** Ends the renewal; the row itself was given back by a commit. */
  forget(lease: Lease): void;
  /**
   * Ends the renewal and gives the row back, due at once or after `dueInMs`. Where the database does not answer it throws, and
   * tries again until it does: a holder that lives is not to be counted among those that ended.
   */
  release(lease: Lease, dueInMs?: number): Promise<void>;
  /** As `release`, for rows of one table, in one statement. */
  releaseAll(leases: readonly Lease[], dueInMs?: number): Promise<void>;
  /** As `release`, by a statement of its own, which is repeated until the database has answered: a second time must do no harm. */
  releaseBy(lease: Lease, giveBack: () => Promise<void>): Promise<void>;
  /** Aborted once this process lets go of all that it holds, by `abandon` or `close`. */
  readonly lettingGo: AbortSignal;
  /** Treats every lease as lost: flows stop at their next step, and the rows are free for others when given back. */
  abandon(): void;
  /** Ends all renewal; whoever still works under a lease is told that it is lost. */
  close(): void;
}

interface Entry {
  readonly lease: Lease;
  readonly abort: AbortController;
  durationMs: number;
  /** When the request was made that renewed it last. */
  renewedAt: Moment;
}

/** A moment by both clocks of this machine. */
interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

const thisMoment = (): Moment => ({ monotonic: performance.now(), wall: Date.now() });

/**
 * Milliseconds since then, by the clock that says more. The monotonic one stands still while the machine sleeps, and the
 * wall clock may be set back; a lease that is given up too early costs a little work, one that is trusted too long may
 * cost a second payment.
 */
const msSince = (then: Moment): number =>
  Math.max(performance.now() - then.monotonic, Date.now() - then.wall);

const TICKS_PER_LEASE = 12;

/**
 * Starts a keeper that renews every third of a lease, with one statement for all leases of a table that last as long; a row
 * that somebody has locked holds up no other lease, and is tried again at the next tick.
 * Whether a lease is still trusted is judged apart from that and more often, so that neither a dead database connection
 * nor a stalled process keeps a flow believing in a lease that others may already have taken.
 */
export function createLeaseKeeper(db: Database, claimant: Claimant): LeaseKeeper {
  const entries = new Map<string, Entry>();
  const owed = new Map<string, () => Promise<void>>();
  const keyOf = (lease: Lease): string => `${lease.table}/${lease.id}/${lease.epoch}`;
  let renewing = false;
  let releasing = false;
  let renewedAllAt = thisMoment();
  // Renewals and extensions take turns, so that an older and shorter one never lands after a longer one.
  let lastTurn: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const turn = lastTurn.then(work);
    lastTurn = turn.catch(() => undefined);
    return turn;
  };

  const lose = (key: string, entry: Entry): void => {
    entries.delete(key);
    entry.abort.abort(
      new NightshiftError('fenced', `The lease on ${entry.lease.table} ${entry.lease.id} was lost.`),
    );
  };

  /** Whether none was passed over, because somebody has locked its row: such a one is as old as before. */
  const renewGroup = async (
    group: readonly Entry[],
    table: Lease['table'],
    durationMs: number,
    whenLocked: 'wait' | 'pass over',
  ): Promise<boolean> => {
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
      else if (!passed_over.has(entry.lease.id)) lose(key, entry);
    }
    return passed_over.size === 0;
  };

  /** What could not be renewed in time is no longer trusted, whatever the database would say. */
  const loseOverdue = (): void => {
    for (const [key, entry] of entries) {
      if (msSince(entry.renewedAt) > (entry.durationMs * 2) / 3) lose(key, entry);
    }
  };

  const renewAll = async (): Promise<void> => {
    const askedAt = thisMoment();
    const groups = Map.groupBy(entries.values(), (entry) => `${entry.lease.table} ${entry.durationMs}`);
    const ends = await Promise.allSettled(
      [...groups.values()].map(async (group) => {
        const first = group[0];
        return first === undefined || renewGroup(group, first.lease.table, first.durationMs, 'pass over');
      }),
    );
    // What failed or was passed over is made good at the next tick, while there is time.
    if (ends.every((end) => end.status === 'fulfilled' && end.value)) renewedAllAt = askedAt;
  };

  const releaseOwed = async (): Promise<void> => {
    for (const [key, giveBack] of owed) {
      owed.delete(key);
      try {
        await giveBack();
      } catch (error) {
        // Behind the others, which it may have nothing in common with.
        owed.set(key, giveBack);
        throw error;
      }
    }
  };

  const timer = setInterval(() => {
    if (owed.size > 0 && !releasing) {
      releasing = true;
      void releaseOwed()
        // The database is away: at the next tick.
        .catch(() => undefined)
        .finally(() => {
          releasing = false;
        });
    }
    // A process that was stalled judges before it renews: others may have acted on the lapse already.
    loseOverdue();
    const isDue = msSince(renewedAllAt) >= claimant.lease_duration_ms / 3;
    if (!isDue || renewing || entries.size === 0) return;
    renewing = true;
    void inTurn(renewAll).finally(() => {
      renewing = false;
    });
  }, claimant.lease_duration_ms / TICKS_PER_LEASE);
  timer.unref();

  const giveBackOrOwe = async (leases: readonly Lease[], giveBack: () => Promise<void>): Promise<void> => {
    const keys = leases.map(keyOf);
    for (const key of keys) entries.delete(key);
    try {
      await giveBack();
    } catch (error) {
      owed.set(keys.join(' '), giveBack);
      throw error;
    }
  };

  const letting = new AbortController();
  const abandon = (): void => {
    letting.abort();
    for (const [key, entry] of entries) lose(key, entry);
  };

  return {
    hold(lease) {
      for (const [key, earlier] of entries) {
        // Claimed anew, so the earlier claim had run out unnoticed.
        if (earlier.lease.table === lease.table && earlier.lease.id === lease.id) lose(key, earlier);
      }
      const entry: Entry = {
        lease,
        abort: new AbortController(),
        durationMs: claimant.lease_duration_ms,
        renewedAt: thisMoment(),
      };
      entries.set(keyOf(lease), entry);
      return { ...lease, signal: entry.abort.signal };
    },
    async extend(lease, durationMs) {
      const entry = entries.get(keyOf(lease));
      if (entry === undefined)
        throw new NightshiftError('fenced', `The lease on ${lease.table} ${lease.id} was lost.`);
      await inTurn(async () => {
        await renewGroup([entry], lease.table, durationMs, 'wait');
        entry.durationMs = durationMs;
      });
      entry.abort.signal.throwIfAborted();
    },
    remainingMs(lease) {
      const entry = entries.get(keyOf(lease));
      return entry === undefined ? 0 : Math.max(0, entry.durationMs - msSince(entry.renewedAt));
    },
    forget(lease) {
      entries.delete(keyOf(lease));
    },
    release: (lease, dueInMs) =>
      giveBackOrOwe([lease], () => releaseLeases(db, lease.table, [lease], dueInMs ?? null)),
    async releaseAll(leases, dueInMs) {
      const [first] = leases;
      if (first === undefined) return;
      await giveBackOrOwe(leases, () => releaseLeases(db, first.table, leases, dueInMs ?? null));
    },
    releaseBy: (lease, giveBack) => giveBackOrOwe([lease], giveBack),
    lettingGo: letting.signal,
    abandon,
    close() {
      clearInterval(timer);
      owed.clear();
      abandon();
    },
  };
}
