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
import { afterAll, afterEach, beforeAll, expect, inject, onTestFinished, test, vi } from 'vitest';
import { newNonce } from '../../src/flows/nonce.ts';
import { createLeaseKeeper, type HeldLease, type LeaseKeeper } from '../../src/leases/keeper.ts';

const LEASE_MS = 2_400;
const ME: Claimant = { owner: 'me', lease_duration_ms: LEASE_MS };
const OTHER: Claimant = { ...ME, owner: 'other' };

let database: TestDatabase;
let keeper: LeaseKeeper | undefined;

beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterEach(() => keeper?.close());
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
  /** Keeps answers back until the result is called. */
  hold(): () => void;
}

/** The database behind a line that can be cut (statements fail) or go dead (answers never come). */
function behindLine(): { db: Database; line: Line; statements: string[] } {
  let arrival = Promise.resolve();
  const line: Line = {
    state: 'up',
    refused: 0,
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
    transformResult({ result }) {
      return line.state === 'dead' ? new Promise(() => undefined) : arrival.then(() => result);
    },
  });
  return { db, line, statements };
}

function aborted(lease: HeldLease): Promise<unknown> {
  return new Promise((resolve) => {
    lease.signal.addEventListener('abort', () => resolve(lease.signal.reason), { once: true });
  });
}

test('a held lease is renewed before it ends, again and again', async () => {
  keeper = createLeaseKeeper(database.db, ME);
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  const first = await readLease(lease);
  await expect
    .poll(
      async () => {
        const row = await readLease(lease);
        expect(row.until).toBeGreaterThan(row.now);
        return row.until - first.until;
      },
      { interval: 30 },
    )
    .toBeGreaterThan(2 * LEASE_MS);
  expect(held.signal.aborted).toBe(false);
});

test('a takeover aborts the signal, as fenced', async () => {
  keeper = createLeaseKeeper(database.db, ME);
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  const end = aborted(held);
  await releaseLease(database.db, lease);
  expect(await claim(lease.id, OTHER)).not.toBeNull();
  const reason = await end;
  expect(isError(reason, 'fenced')).toBe(true);
  expect(keeper.remainingMs(lease)).toBe(0);
  expect((await readLease(lease)).owner).toBe('other');
});

test('a claim of the same row under a later epoch ends the trust in the earlier one', async () => {
  keeper = createLeaseKeeper(database.db, ME);
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
    const lease = await claimFresh();
    vi.useFakeTimers({ toFake: ['performance', 'Date', 'setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    keeper = createLeaseKeeper(db, ME);
    const held = keeper.hold(lease);
    line.state = state;
    await vi.advanceTimersByTimeAsync((LEASE_MS * 2) / 3);
    expect(held.signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(LEASE_MS / 12);
    expect(isError(held.signal.reason, 'fenced')).toBe(true);
    expect((await readLease(lease)).owner).toBe('me');
  },
);

test('after a stall longer than two thirds of the lease nothing is renewed: the lease is given up first', async () => {
  keeper = createLeaseKeeper(database.db, ME);
  const lease = await claimFresh();
  const before = await readLease(lease);
  const held = keeper.hold(lease);
  const end = aborted(held);
  const until = performance.now() + LEASE_MS * 0.8;
  while (performance.now() < until);
  await end;
  expect((await readLease(lease)).until).toBe(before.until);
});

test('a renewal that failed is made good in time', async () => {
  const { db, line } = behindLine();
  keeper = createLeaseKeeper(db, ME);
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  const before = await readLease(lease);
  line.state = 'cut';
  await expect.poll(() => line.refused, { interval: 5 }).toBeGreaterThan(0);
  line.state = 'up';
  await expect.poll(async () => (await readLease(lease)).until).toBeGreaterThan(before.until);
  expect(held.signal.aborted).toBe(false);
});

test('many leases of a table are renewed by one statement', async () => {
  const { db, statements } = behindLine();
  keeper = createLeaseKeeper(db, ME);
  const leases = await Promise.all(Array.from({ length: 40 }, () => claimFresh()));
  for (const lease of leases) keeper.hold(lease);
  const before = await Promise.all(leases.map(readLease));
  await expect.poll(() => statements.length).toBeGreaterThan(0);
  await expect
    .poll(async () => {
      const after = await Promise.all(leases.map(readLease));
      return after.every((row, place) => row.until > before[place]!.until);
    })
    .toBe(true);
  for (const { id } of leases) expect(statements.filter((statement) => !statement.includes(id))).toEqual([]);
});

test('an extension lasts as long as asked, and later renewals keep to it', async () => {
  keeper = createLeaseKeeper(database.db, ME);
  const lease = await claimFresh();
  keeper.hold(lease);
  expect(keeper.remainingMs(lease)).toBeLessThanOrEqual(LEASE_MS);
  await keeper.extend(lease, 60_000);
  const remainingMs = keeper.remainingMs(lease);
  expect(remainingMs).toBeGreaterThan(59_000);
  const extended = await readLease(lease);
  expect(extended.until - extended.now).toBeGreaterThan(59_000);
  await expect.poll(async () => (await readLease(lease)).until).toBeGreaterThan(extended.until);
});

test('an extension that the database did not grant lengthens nothing', async () => {
  const { db, line } = behindLine();
  keeper = createLeaseKeeper(db, ME);
  const lease = await claimFresh();
  keeper.hold(lease);
  line.state = 'cut';
  await expect(keeper.extend(lease, 60_000)).rejects.toThrow('the line is cut');
  expect(keeper.remainingMs(lease)).toBeLessThanOrEqual(LEASE_MS);
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
  keeper = createLeaseKeeper(db, ME);
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  const arrive = line.hold();
  await expect.poll(() => statements.length, { interval: 5 }).toBe(1);
  const extended = keeper.extend(lease, 60_000);
  arrive();
  await extended;
  expect(held.signal.aborted).toBe(false);
  const row = await readLease(lease);
  expect(row.until - row.now).toBeGreaterThan(59_000);
});

test('a row that somebody has locked holds up no other lease, and is no longer trusted when its time is over', async () => {
  keeper = createLeaseKeeper(database.db, ME);
  const [locked, other] = [await claimFresh(), await claimFresh()];
  const lock = await lockRow(locked);
  try {
    const [heldAt, lost, held] = [performance.now(), keeper.hold(locked), keeper.hold(other)];
    const first = await readLease(other);
    await aborted(lost);
    expect(performance.now() - heldAt).toBeGreaterThanOrEqual((LEASE_MS * 2) / 3);
    await expect
      .poll(async () => (await readLease(other)).until, { interval: 30 })
      .toBeGreaterThan(first.until + LEASE_MS);
    expect(held.signal.aborted).toBe(false);
  } finally {
    await lock.free();
  }
});

test('a lease that was passed over is renewed in time when its row is free again', async () => {
  const { db, statements } = behindLine();
  keeper = createLeaseKeeper(db, ME);
  const lease = await claimFresh();
  const lock = await lockRow(lease);
  const held = keeper.hold(lease);
  const before = await readLease(lease);
  await expect.poll(() => statements.length, { interval: 5 }).toBeGreaterThan(0);
  await lock.free();
  await expect.poll(async () => (await readLease(lease)).until).toBeGreaterThan(before.until);
  expect(held.signal.aborted).toBe(false);
});

test('an extension waits for its row', async () => {
  const patient: Claimant = { ...ME, lease_duration_ms: 12_000 };
  keeper = createLeaseKeeper(database.db, patient);
  const lease = await claimFresh(patient);
  const lock = await lockRow(lease);
  keeper.hold(lease);
  const extended = keeper.extend(lease, 60_000);
  await expect
    .poll(
      async () =>
        (
          await database.pool.query(
            `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
          )
        ).rowCount,
      { interval: 10 },
    )
    .toBeGreaterThan(0);
  await lock.free();
  await extended;
  expect(keeper.remainingMs(lease)).toBeGreaterThan(patient.lease_duration_ms);
  const row = await readLease(lease);
  expect(row.until - row.now).toBeGreaterThan(59_000);
});

test('an extension of a lost lease throws fenced', async () => {
  keeper = createLeaseKeeper(database.db, ME);
  const lease = await claimFresh();
  keeper.hold(lease);
  await releaseLease(database.db, lease);
  await claim(lease.id, OTHER);
  await expect(keeper.extend(lease, 60_000)).rejects.toSatisfy((error) => isError(error, 'fenced'));
  await expect(keeper.extend(lease, 60_000)).rejects.toSatisfy((error) => isError(error, 'fenced'));
  expect((await readLease(lease)).owner).toBe('other');
});

test('what remains of a lease never grows by itself and ends at nothing', async () => {
  const { db, line } = behindLine();
  keeper = createLeaseKeeper(db, ME);
  const lease = await claimFresh();
  expect(keeper.remainingMs(lease)).toBe(0);
  const held = keeper.hold(lease);
  line.state = 'cut';
  const first = keeper.remainingMs(lease);
  expect(first).toBeGreaterThan(LEASE_MS - 100);
  expect(first).toBeLessThanOrEqual(LEASE_MS);
  await aborted(held);
  expect(keeper.remainingMs(lease)).toBe(0);
});

test('a released row is free for others at once, a forgotten one keeps its time', async () => {
  keeper = createLeaseKeeper(database.db, ME);
  const released = await claimFresh();
  const forgotten = await claimFresh();
  keeper.hold(released);
  keeper.hold(forgotten);
  await keeper.release(released);
  keeper.forget(forgotten);
  expect(await claim(forgotten.id, OTHER)).toBeNull();
  expect(await claim(released.id, OTHER)).not.toBeNull();
  await expect.poll(() => claim(forgotten.id, OTHER)).not.toBeNull();
});

test('what could not be given back is given back as soon as the database answers, so that its holder never counts as ended', async () => {
  const { db, line } = behindLine();
  keeper = createLeaseKeeper(db, { ...ME, lease_duration_ms: 12_000 });
  const id = newId();
  await database.pool.query(
    `insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at)
     values ($1, $2, 'default', 'building', $3, 1, now())`,
    [id, DEFAULT_PROJECT_ID, newNonce()],
  );
  const lease = (await claim(id, { ...ME, lease_duration_ms: 60_000 }))!;
  keeper.hold(lease);
  line.state = 'cut';
  await expect(keeper.release(lease, 0)).rejects.toThrow('the line is cut');
  expect(await claim(id, OTHER)).toBeNull();
  line.state = 'up';
  await expect
    .poll(() => claimProviderBatch(database.db, id, 'building', OTHER))
    .toMatchObject({
      taken_over_from: null,
      lapses: 0,
    });
});

test('rows of one table are given back in one statement, and together as soon as the database answers', async () => {
  const { db, line, statements } = behindLine();
  keeper = createLeaseKeeper(db, { ...ME, lease_duration_ms: 12_000 });
  const leases = [await claimFresh(), await claimFresh(), await claimFresh()];
  for (const lease of leases) keeper.hold(lease);
  line.state = 'cut';
  await expect(keeper.releaseAll(leases, 60_000)).rejects.toThrow('the line is cut');
  expect(line.refused).toBe(1);
  line.state = 'up';
  await expect.poll(() => statements.length).toBe(1);
  for (const lease of leases) await expect.poll(async () => (await readLease(lease)).owner).toBeNull();
  await keeper.releaseAll([]);
  expect(statements).toHaveLength(1);
});

test('a row that cannot be given back at all keeps no other from being given back', async () => {
  const { db, line } = behindLine();
  keeper = createLeaseKeeper(db, { ...ME, lease_duration_ms: 1_200 });
  const [odd, plain] = [await claimFresh(), await claimFresh()];
  for (const lease of [odd, plain]) keeper.hold(lease);
  await expect(keeper.releaseBy(odd, () => Promise.reject(new Error('never')))).rejects.toThrow('never');
  line.state = 'cut';
  await expect(keeper.release(plain, 0)).rejects.toThrow('the line is cut');
  line.state = 'up';
  await expect.poll(async () => (await readLease(plain)).owner).toBeNull();
});

test('a closed keeper renews nothing and tells whoever still works under a lease', async () => {
  const { db, statements } = behindLine();
  keeper = createLeaseKeeper(db, ME);
  const lease = await claimFresh();
  const held = keeper.hold(lease);
  keeper.close();
  expect(isError(held.signal.reason, 'fenced')).toBe(true);
  await expect.poll(() => claim(lease.id, OTHER)).not.toBeNull();
  expect(statements).toEqual([]);
});
