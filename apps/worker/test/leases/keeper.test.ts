import type {} from '../../../../test/global-setup.ts';
import { isError } from '@nightshift/agent-core';
import {
  claimProviderBatch,
  DEFAULT_PROJECT_ID,
  newId,
  releaseLease,
  type Claimant,
  type Database,
  type Lease,
} from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { afterAll, beforeAll, expect, inject, onTestFinished, test, vi } from 'vitest';
import { newNonce } from '../../src/flow-parts/nonce.ts';
import { createLeaseKeeper, type HeldLease, type LeaseKeeper } from '../../src/leases/keeper.ts';

const LEASE_MS = 60_000;
const ME: Claimant = { owner: 'me', lease_duration_ms: LEASE_MS };
const OTHER: Claimant = { ...ME, owner: 'other' };

let database: TestDatabase;

beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

interface LeaseRow {
  readonly until: number;
  readonly now: number;
  readonly owner: string | null;
}

/** A fresh row under a fresh lease of ours. */
async function claimFresh(claimant = ME): Promise<Lease> {
  const id = newId();
  await database.pool.query(
    `insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at)
     values ($1, $2, 'default', 'building', $3, 1, now())`,
    [id, DEFAULT_PROJECT_ID, newNonce()],
  );
  return (await claim(id, claimant))!;
}

/** A lease on the row, or null while somebody holds it. */
async function claim(id: string, claimant: Claimant): Promise<Lease | null> {
  const row = await claimProviderBatch(database.db, id, 'building', claimant);
  return row === null ? null : { table: 'provider_batch', id, epoch: row.lease_epoch };
}

/** When the lease ends and what time it is there, in milliseconds of the database. */
async function readLease(lease: Lease): Promise<LeaseRow> {
  const { rows } = await database.pool.query<LeaseRow>(
    `select coalesce(nullif(extract(epoch from lease_until), '-infinity'), 0)::float8 * 1000 as until,
            extract(epoch from app_now())::float8 * 1000 as now, lease_owner as owner
       from provider_batch where id = $1`,
    [lease.id],
  );
  return rows[0]!;
}

interface Line {
  state: 'up' | 'cut' | 'dead';
  refused: number;
  answered: number;
  /** Keeps answers back until the result is called. */
  hold(): () => void;
}

/** The database behind a line that can be cut (statements fail) or go dead (answers never come). */
function behindLine(): { db: Database; line: Line; statements: string[] } {
  let arrival = Promise.resolve();
  const line: Line = {
    state: 'up',
    refused: 0,
    answered: 0,
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      arrival = promise;
      return resolve;
    },
  };
  const statements: string[] = [];
  const db = database.db.withPlugin({
    transformQuery({ node }) {
      if (line.state === 'cut') {
        line.refused += 1;
        throw new Error('the line is cut');
      }
      statements.push(JSON.stringify(node));
      return node;
    },
    async transformResult({ result }) {
      if (line.state === 'dead') await new Promise(() => undefined);
      await arrival;
      line.answered += 1;
      return result;
    },
  });
  return { db, line, statements };
}

/** A keeper for which time passes when the test says so, and not while the machine is busy. */
function openKeeper(db = database.db): LeaseKeeper {
  vi.useFakeTimers({ toFake: ['performance', 'Date', 'setInterval', 'clearInterval'] });
  const keeper = createLeaseKeeper(db, ME);
  onTestFinished(() => {
    keeper.close();
    vi.useRealTimers();
  });
  return keeper;
}

/** How often the keeper looks at its leases. It renews them four ticks after the last time, and trusts them for eight. */
const TICK_MS = LEASE_MS / 12;

const passTicks = (count: number): Promise<unknown> => vi.advanceTimersByTimeAsync(count * TICK_MS);

/** As `expect.poll`, which would let time pass for the keeper too. */
function soon<T>(read: () => T): ReturnType<typeof expect.poll<T>> {
  return expect.poll(read, { interval: 0 });
}

function aborted(lease: HeldLease): Promise<unknown> {
  return new Promise((resolve) => {
    lease.signal.addEventListener('abort', () => resolve(lease.signal.reason), { once: true });
  });
}

test('a held lease is renewed before it ends, again and again', async () => {
  const keeper = openKeeper();
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  for (let renewals = 0; renewals < 6; renewals++) {
    const before = await readLease(lease);
    await passTicks(3);
    expect(keeper.remainingMs(lease)).toBe(9 * TICK_MS);
    await passTicks(1);
    await soon(() => keeper.remainingMs(lease)).toBe(LEASE_MS);
    expect((await readLease(lease)).until).toBeGreaterThanOrEqual(before.now + LEASE_MS);
  }
  expect(held.signal.aborted).toBe(false);
});

test('a takeover aborts the signal, as fenced', async () => {
  const keeper = openKeeper();
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  const end = aborted(held);
  await releaseLease(database.db, lease);
  expect(await claim(lease.id, OTHER)).not.toBeNull();
  await passTicks(4);
  const reason = await end;
  expect(isError(reason, 'fenced')).toBe(true);
  expect(keeper.remainingMs(lease)).toBe(0);
  expect((await readLease(lease)).owner).toBe('other');
});

test('a claim of the same row under a later epoch ends the trust in the earlier one', async () => {
  const keeper = openKeeper();
  const early = await claimFresh();
  const held = keeper.hold(early);
  await releaseLease(database.db, early);
  const late = await claim(early.id, ME);
  const later = keeper.hold(late!);
  expect(held.signal.aborted).toBe(true);
  expect(keeper.remainingMs(early)).toBe(0);
  expect(later.signal.aborted).toBe(false);
});

test.each(['cut', 'dead'] as const)(
  'without a renewal for two thirds of its time a lease is not trusted, though the row is still ours: line %s',
  async (state) => {
    const { db, line } = behindLine();
    const keeper = openKeeper(db);
    const lease = await claimFresh();
    const held = keeper.hold(lease);
    line.state = state;
    await passTicks(8);
    expect(held.signal.aborted).toBe(false);
    await passTicks(1);
    expect(isError(held.signal.reason, 'fenced')).toBe(true);
    expect((await readLease(lease)).owner).toBe('me');
  },
);

test('after a stall longer than two thirds of the lease nothing is renewed: the lease is given up first', async () => {
  const brief: Claimant = { ...ME, lease_duration_ms: 600 };
  const keeper = createLeaseKeeper(database.db, brief);
  onTestFinished(() => keeper.close());
  const lease = await claimFresh(brief);
  const before = await readLease(lease);
  const held = keeper.hold(lease);
  const end = aborted(held);
  const until = performance.now() + brief.lease_duration_ms * 0.8;
  while (performance.now() < until);
  await end;
  expect((await readLease(lease)).until).toBe(before.until);
});

test('a renewal that failed is made good in time', async () => {
  const { db, line } = behindLine();
  const keeper = openKeeper(db);
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  const before = await readLease(lease);
  line.state = 'cut';
  await passTicks(4);
  await soon(() => line.refused).toBe(1);
  line.state = 'up';
  await passTicks(1);
  await soon(() => keeper.remainingMs(lease)).toBe(LEASE_MS);
  expect((await readLease(lease)).until).toBeGreaterThan(before.until);
  expect(held.signal.aborted).toBe(false);
});

test('many leases of a table are renewed by one statement', async () => {
  const { db, line, statements } = behindLine();
  const keeper = openKeeper(db);
  const leases = await Promise.all(Array.from({ length: 40 }, () => claimFresh()));
  for (const lease of leases) keeper.hold(lease);
  const before = await Promise.all(leases.map(readLease));
  await passTicks(4);
  await soon(() => line.answered).toBe(1);
  const after = await Promise.all(leases.map(readLease));
  for (const [place, row] of after.entries()) expect(row.until).toBeGreaterThan(before[place]!.until);
  expect(statements).toHaveLength(1);
});

test('an extension lasts as long as asked, and later renewals keep to it', async () => {
  const keeper = openKeeper();
  const lease = await claimFresh();
  keeper.hold(lease);
  expect(keeper.remainingMs(lease)).toBe(LEASE_MS);
  const before = await readLease(lease);
  await keeper.extend(lease, 600_000);
  expect(keeper.remainingMs(lease)).toBe(600_000);
  const extended = await readLease(lease);
  expect(extended.until).toBeGreaterThanOrEqual(before.now + 600_000);
  await passTicks(4);
  await soon(() => keeper.remainingMs(lease)).toBe(600_000);
  expect((await readLease(lease)).until).toBeGreaterThanOrEqual(extended.now + 600_000);
});

test('an extension that the database did not grant lengthens nothing', async () => {
  const { db, line } = behindLine();
  const keeper = openKeeper(db);
  const lease = await claimFresh();
  keeper.hold(lease);
  line.state = 'cut';
  await expect(keeper.extend(lease, 600_000)).rejects.toThrow('the line is cut');
  expect(keeper.remainingMs(lease)).toBe(LEASE_MS);
});

/** Locks the row of a lease until `free` is called. */
async function lockRow(lease: Lease): Promise<{ readonly free: () => Promise<void> }> {
  const blocker = await database.pool.connect();
  await blocker.query('begin');
  await blocker.query('select 1 from provider_batch where id = $1 for update', [lease.id]);
  return {
    async free() {
      await blocker.query('commit');
      blocker.release();
    },
  };
}

test('a renewal that is under way does not shorten an extension', async () => {
  const { db, line, statements } = behindLine();
  const keeper = openKeeper(db);
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  const before = await readLease(lease);
  const arrive = line.hold();
  await passTicks(4);
  await soon(() => statements.length).toBe(1);
  const extended = keeper.extend(lease, 600_000);
  arrive();
  await extended;
  expect(held.signal.aborted).toBe(false);
  expect((await readLease(lease)).until).toBeGreaterThanOrEqual(before.now + 600_000);
});

test('a row that somebody has locked holds up no other lease, and is no longer trusted when its time is over', async () => {
  const keeper = openKeeper();
  const [locked, other] = [await claimFresh(), await claimFresh()];
  const lock = await lockRow(locked);
  try {
    const [lost, held] = [keeper.hold(locked), keeper.hold(other)];
    const first = await readLease(other);
    await passTicks(3);
    for (let tick = 4; tick <= 8; tick++) {
      await passTicks(1);
      await soon(() => keeper.remainingMs(other)).toBe(LEASE_MS);
      expect(keeper.remainingMs(locked)).toBe(LEASE_MS - tick * TICK_MS);
    }
    await passTicks(1);
    expect(isError(lost.signal.reason, 'fenced')).toBe(true);
    expect((await readLease(other)).until).toBeGreaterThanOrEqual(first.now + LEASE_MS);
    expect(held.signal.aborted).toBe(false);
  } finally {
    await lock.free();
  }
});

test('a lease that was passed over is renewed in time when its row is free again', async () => {
  const { db, line } = behindLine();
  const keeper = openKeeper(db);
  const lease = await claimFresh();
  const lock = await lockRow(lease);
  const held = keeper.hold(lease);
  const before = await readLease(lease);
  await passTicks(4);
  await soon(() => line.answered).toBe(1);
  expect((await readLease(lease)).until).toBe(before.until);
  await lock.free();
  await passTicks(1);
  await soon(() => keeper.remainingMs(lease)).toBe(LEASE_MS);
  expect((await readLease(lease)).until).toBeGreaterThan(before.until);
  expect(held.signal.aborted).toBe(false);
});

test('an extension waits for its row', async () => {
  const keeper = openKeeper();
  const lease = await claimFresh();
  const lock = await lockRow(lease);
  keeper.hold(lease);
  const before = await readLease(lease);
  const extended = keeper.extend(lease, 600_000);
  const waiting = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  await soon(async () => (await database.pool.query(waiting)).rowCount).toBe(1);
  await lock.free();
  await extended;
  expect(keeper.remainingMs(lease)).toBe(600_000);
  expect((await readLease(lease)).until).toBeGreaterThanOrEqual(before.now + 600_000);
});

test('an extension of a lost lease throws fenced', async () => {
  const keeper = openKeeper();
  const lease = await claimFresh();
  keeper.hold(lease);
  await releaseLease(database.db, lease);
  await claim(lease.id, OTHER);
  await expect(keeper.extend(lease, 600_000)).rejects.toSatisfy((error) => isError(error, 'fenced'));
  await expect(keeper.extend(lease, 600_000)).rejects.toSatisfy((error) => isError(error, 'fenced'));
  expect((await readLease(lease)).owner).toBe('other');
});

test('what remains of a lease never grows by itself and ends at nothing', async () => {
  const { db, line } = behindLine();
  const keeper = openKeeper(db);
  const lease = await claimFresh();
  expect(keeper.remainingMs(lease)).toBe(0);
  const held = keeper.hold(lease);
  line.state = 'cut';
  for (let tick = 0; tick <= 8; tick++) {
    expect(keeper.remainingMs(lease)).toBe(LEASE_MS - tick * TICK_MS);
    await passTicks(1);
  }
  expect(held.signal.aborted).toBe(true);
  expect(keeper.remainingMs(lease)).toBe(0);
});

test('a released row is free for others at once, a forgotten one keeps its time', async () => {
  const { db, statements } = behindLine();
  const keeper = openKeeper(db);
  const released = await claimFresh();
  const forgotten = await claimFresh();
  keeper.hold(released);
  keeper.hold(forgotten);
  await keeper.release(released);
  keeper.forget(forgotten);
  expect(await claim(forgotten.id, OTHER)).toBeNull();
  expect(await claim(released.id, OTHER)).not.toBeNull();
  await passTicks(12);
  expect(statements, 'the release, and no renewal').toHaveLength(1);
});

test('what could not be given back is given back as soon as the database answers, so that its holder never counts as ended', async () => {
  const { db, line } = behindLine();
  const keeper = openKeeper(db);
  const id = newId();
  await database.pool.query(
    `insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at)
     values ($1, $2, 'default', 'building', $3, 1, now())`,
    [id, DEFAULT_PROJECT_ID, newNonce()],
  );
  const lease = (await claim(id, ME))!;
  keeper.hold(lease);
  line.state = 'cut';
  await expect(keeper.release(lease, 0)).rejects.toThrow('the line is cut');
  expect(await claim(id, OTHER)).toBeNull();
  line.state = 'up';
  await passTicks(1);
  await soon(() => line.answered).toBe(1);
  expect(await claimProviderBatch(database.db, id, 'building', OTHER)).toMatchObject({
    taken_over_from: null,
    crash_count: 0,
  });
});

test('rows of one table are given back in one statement, and together as soon as the database answers', async () => {
  const { db, line, statements } = behindLine();
  const keeper = openKeeper(db);
  const leases = [await claimFresh(), await claimFresh(), await claimFresh()];
  for (const lease of leases) keeper.hold(lease);
  line.state = 'cut';
  await expect(keeper.releaseAll(leases, 60_000)).rejects.toThrow('the line is cut');
  expect(line.refused).toBe(1);
  line.state = 'up';
  await passTicks(1);
  await soon(() => line.answered).toBe(1);
  for (const lease of leases) expect((await readLease(lease)).owner).toBeNull();
  await keeper.releaseAll([]);
  expect(statements).toHaveLength(1);
});

test('a row that cannot be given back at all keeps no other from being given back', async () => {
  const { db, line } = behindLine();
  const keeper = openKeeper(db);
  const [odd, plain] = [await claimFresh(), await claimFresh()];
  for (const lease of [odd, plain]) keeper.hold(lease);
  await expect(keeper.releaseBy(odd, () => Promise.reject(new Error('never')))).rejects.toThrow('never');
  line.state = 'cut';
  await expect(keeper.release(plain, 0)).rejects.toThrow('the line is cut');
  line.state = 'up';
  await passTicks(2);
  await soon(() => line.answered).toBe(1);
  expect((await readLease(plain)).owner).toBeNull();
});

test('a closed keeper renews nothing and tells whoever still works under a lease', async () => {
  const { db, statements } = behindLine();
  const keeper = openKeeper(db);
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  keeper.close();
  expect(isError(held.signal.reason, 'fenced')).toBe(true);
  await passTicks(12);
  expect(statements).toEqual([]);
});
