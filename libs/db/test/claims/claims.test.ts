import { ACCOUNT_TROUBLE, PAUSE_REASONS } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  claimCredential,
  claimDueBatches,
  claimDuePolls,
  claimDueSend,
  claimDueProviderBatches,
  claimLooks,
  claimProviderBatch,
  claimToolsChunk,
  chargeLooks,
  commitPutOff,
  DEFAULT_PROJECT_ID,
  haltCredential,
  holdLease,
  inTransaction,
  lockPauseMs,
  lockUsable,
  newId,
  pauseCredential,
  readPausedCredentials,
  releaseAllLeases,
  releaseCredential,
  releaseLease,
  resumeCredential,
  renewLeases,
  sealReadyRuns,
  type Claimant,
  type Database,
  type Lease,
  type LeasedTable,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import {
  acceptBareFleet,
  ALICE,
  BOB,
  gate,
  later,
  leaseOf,
  newNonce,
  untilLockIsAwaited,
} from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() => sql`truncate batch, run, provider_batch, run_chunk cascade`.execute(db));

/** Longer than the leases of ALICE and BOB. */
const EXPIRED_MS = 30_001;
const PROJECT = sql`'00000000-0000-4000-8000-000000000000'::uuid`;

/** Renews a lease of ALICE, with and without waiting, and returns the ids renewed by both. */
async function renew(on: Database, table: LeasedTable, lease: Lease): Promise<readonly string[]> {
  const waiting = await renewLeases(on, table, [lease], ALICE, 'wait');
  const passing = await renewLeases(on, table, [lease], ALICE, 'pass over');
  expect(passing).toEqual(waiting);
  expect(passing.passed_over).toEqual(new Set());
  return [...passing.renewed];
}

interface Claimed {
  readonly id: string;
  readonly lease_epoch: number;
  readonly taken_over_from: string | null;
}

interface LeasedKind {
  readonly table: LeasedTable;
  /** Inserts a row that is due `inMs` from now. */
  put(inMs: number): Promise<string>;
  claim(on: Database, claimant: Claimant, limit?: number): Promise<readonly Claimed[]>;
}

/** Inserts a provider batch in `submitted` with a poll due `inMs` from now. */
async function putSubmitted(inMs: number): Promise<string> {
  const id = newId();
  await sql`insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at, provider_id,
              submitted_at, submit_started_at, body_bytes, body_sha256)
    values (${id}::uuid, ${PROJECT}, 'default', 'submitted', ${id.slice(-12)}, 1, app_now() + ${inMs} * interval '1 millisecond',
            ${id}, app_now(), app_now(), 1, ${'0'.repeat(64)})`.execute(db);
  return id;
}

async function putBuilding(inMs: number): Promise<string> {
  const id = newId();
  await sql`insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at)
    values (${id}::uuid, ${PROJECT}, 'default', 'building', ${id.slice(-12)}, 1, app_now() + ${inMs} * interval '1 millisecond')`.execute(
    db,
  );
  return id;
}

const KINDS: readonly LeasedKind[] = [
  {
    table: 'batch',
    async put(inMs) {
      const id = newId();
      await sql`insert into batch (id, project_id, state, total, next_due_at)
        values (${id}::uuid, ${PROJECT}, 'running', 0, app_now() + ${inMs} * interval '1 millisecond')`.execute(
        db,
      );
      return id;
    },
    claim: (on, claimant, limit = 10) => claimDueBatches(on, ['running'], limit, claimant),
  },
  {
    table: 'provider_batch',
    async put(inMs) {
      const id = newId();
      await sql`insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at)
        values (${id}::uuid, ${PROJECT}, 'default', 'building', ${id.slice(-12)}, 1,
                app_now() + ${inMs} * interval '1 millisecond')`.execute(db);
      return id;
    },
    claim: (on, claimant, limit = 10) => claimDueProviderBatches(on, ['building'], limit, claimant),
  },
  {
    table: 'provider_batch',
    put: putSubmitted,
    claim: async (on, claimant, limit = 10) => (await claimDuePolls(on, limit, claimant)).batches,
  },
  {
    table: 'run_chunk',
    async put(inMs) {
      const id = newId();
      await sql`insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
        values (${id}::uuid, ${PROJECT}, 'tools', array[gen_random_uuid()],
                app_now() + ${inMs} * interval '1 millisecond')`.execute(db);
      return id;
    },
    async claim(on, claimant, limit = 10) {
      const claimed: Claimed[] = [];
      while (claimed.length < limit) {
        const chunk = await claimToolsChunk(on, claimant);
        if (chunk === null) break;
        claimed.push(chunk);
      }
      return claimed;
    },
  },
];

interface LeaseRow {
  readonly lease_owner: string | null;
  readonly lease_epoch: number;
  readonly takeovers: number;
  readonly held: boolean;
  readonly due_in_ms: number;
}

async function read(table: LeasedTable, id: string): Promise<LeaseRow> {
  const { rows } = await sql<LeaseRow>`
    select lease_owner, lease_epoch, takeovers, lease_until > app_now() as held,
           (extract(epoch from next_due_at - app_now()) * 1000)::float8 as due_in_ms
      from ${sql.table(table)} where id = ${id}::uuid`.execute(db);
  return rows[0]!;
}

describe.each(KINDS)('a lease on a $table', (kind) => {
  test('keeps others out until it ends, by the clock of the database', async () => {
    const id = await kind.put(-1);
    const [first] = await kind.claim(db, ALICE);
    expect(first).toMatchObject({ id, lease_epoch: 1, taken_over_from: null });
    expect(await kind.claim(db, BOB)).toEqual([]);
    expect(await later(db, 29_000, (trx) => kind.claim(trx, BOB))).toEqual([]);
    const [second] = await later(db, EXPIRED_MS, (trx) => kind.claim(trx, BOB));
    expect(second).toMatchObject({ id, lease_epoch: 2, taken_over_from: 'alice' });
    expect(await read(kind.table, id)).toMatchObject({ lease_owner: 'bob', lease_epoch: 2, takeovers: 1 });
  });

  test('is renewed by its holder, and lost after a takeover', async () => {
    const id = await kind.put(-1);
    const [mine] = await kind.claim(db, ALICE);
    const lease = leaseOf(kind.table, mine!);
    expect(await later(db, 20_000, (trx) => renew(trx, kind.table, lease))).toEqual([id]);
    expect(await later(db, EXPIRED_MS, (trx) => kind.claim(trx, BOB))).toEqual([]);
    // Expired but not taken over: still held.
    expect(await later(db, 100_000, (trx) => renew(trx, kind.table, lease))).toEqual([id]);
    expect(await later(db, 200_000, (trx) => kind.claim(trx, BOB))).toHaveLength(1);
    expect(await renew(db, kind.table, lease)).toEqual([]);
    // The epoch alone does not prove the holder.
    expect(await renew(db, kind.table, { ...lease, epoch: 2 })).toEqual([]);
    expect(await read(kind.table, id)).toMatchObject({ lease_owner: 'bob', lease_epoch: 2 });
  });

  test('is skipped while its row is locked, and the other leases are renewed', async () => {
    const [locked, free] = [await kind.put(-1), await kind.put(-1)];
    const leases = (await kind.claim(db, ALICE)).map((claimed) => leaseOf(kind.table, claimed));
    const [held, over] = [gate(), gate()];
    const holder = inTransaction(db, async (trx) => {
      await sql`select 1 from ${sql.table(kind.table)} where id = ${locked}::uuid for no key update`.execute(
        trx,
      );
      held.open();
      await over.opened;
    });
    await held.opened;
    expect(await renewLeases(db, kind.table, leases, ALICE, 'pass over')).toEqual({
      renewed: new Set([free]),
      passed_over: new Set([locked]),
    });
    const all = renewLeases(db, kind.table, leases, ALICE, 'wait');
    await untilLockIsAwaited(db);
    over.open();
    expect(await all).toEqual({ renewed: new Set([free, locked]), passed_over: new Set() });
    await holder;
  });

  test('refuses the writes of an overtaken holder', async () => {
    const id = await kind.put(-1);
    const [mine] = await kind.claim(db, ALICE);
    const lease = leaseOf(kind.table, mine!);
    await inTransaction(db, (trx) => holdLease(trx, lease));
    await later(db, EXPIRED_MS, (trx) => kind.claim(trx, BOB));
    await expect(inTransaction(db, (trx) => holdLease(trx, lease))).rejects.toMatchObject({ code: 'fenced' });
    // A late release changes nothing.
    await releaseLease(db, lease, 0);
    expect(await read(kind.table, id)).toMatchObject({ lease_owner: 'bob', lease_epoch: 2 });
    await sql`delete from ${sql.table(kind.table)} where id = ${id}::uuid`.execute(db);
    await expect(inTransaction(db, (trx) => holdLease(trx, lease))).rejects.toMatchObject({ code: 'fenced' });
  });

  test('blocks takeovers while its holder writes, and lets the holder write twice at once', async () => {
    await kind.put(-1);
    const [mine] = await kind.claim(db, ALICE);
    const lease = leaseOf(kind.table, mine!);
    const [held, written] = [gate(), gate()];
    const first = inTransaction(db, async (trx) => {
      await holdLease(trx, lease);
      held.open();
      await written.opened;
    });
    await held.opened;
    expect(await later(db, EXPIRED_MS, (trx) => kind.claim(trx, BOB))).toEqual([]);
    await inTransaction(db, async (trx) => {
      await sql`set local lock_timeout = '1ms'`.execute(trx);
      await holdLease(trx, lease);
    });
    written.open();
    await first;
    expect(await later(db, EXPIRED_MS, (trx) => kind.claim(trx, BOB))).toHaveLength(1);
  });

  test('is free at once after a release, due as its holder says, and counts no takeover', async () => {
    const id = await kind.put(-1000);
    const [first] = await kind.claim(db, ALICE);
    await releaseLease(db, leaseOf(kind.table, first!));
    const [second] = await kind.claim(db, BOB);
    expect(second).toMatchObject({ lease_epoch: 2, taken_over_from: null });
    await releaseLease(db, leaseOf(kind.table, second!), 5_000);
    expect(await kind.claim(db, ALICE)).toEqual([]);
    const row = await read(kind.table, id);
    expect(row).toMatchObject({ lease_owner: null, held: false, takeovers: 0 });
    expect(row.due_in_ms).toBeGreaterThan(4_000);
    expect(await later(db, 5_000, (trx) => kind.claim(trx, ALICE))).toHaveLength(1);
  });

  test('is granted on the row that has been due longest, and only on due rows', async () => {
    await kind.put(60_000);
    const second = await kind.put(-1_000);
    const first = await kind.put(-5_000);
    const third = await kind.put(-10);
    expect((await kind.claim(db, ALICE, 2)).map((row) => row.id).sort()).toEqual([first, second].sort());
    expect((await kind.claim(db, ALICE, 2)).map((row) => row.id)).toEqual([third]);
    expect(await kind.claim(db, ALICE, 2)).toEqual([]);
  });

  test('is granted without waiting for another claimant, and never twice', async () => {
    for (let n = 0; n < 4; n++) await kind.put(-1);
    const [claimed, committed] = [gate(), gate()];
    const alice = inTransaction(db, async (trx) => {
      const rows = await kind.claim(trx, ALICE, 2);
      claimed.open();
      await committed.opened;
      return rows;
    });
    await claimed.opened;
    const bob = await inTransaction(db, async (trx) => {
      await sql`set local lock_timeout = '1ms'`.execute(trx);
      return kind.claim(trx, BOB, 4);
    });
    committed.open();
    const ids = [...(await alice), ...bob].map((row) => row.id);
    expect(bob).toHaveLength(2);
    expect(new Set(ids).size).toBe(4);
  });

  test('is released with all leases of its owner, and no others, on a clean stop', async () => {
    await kind.put(-1);
    await kind.put(-1);
    await kind.claim(db, ALICE, 1);
    const [other] = await kind.claim(db, BOB, 1);
    await releaseAllLeases(db, 'alice');
    const free = await kind.claim(db, ALICE, 5);
    expect(free).toHaveLength(1);
    expect(free[0]).toMatchObject({ taken_over_from: null });
    expect(await read(kind.table, other!.id)).toMatchObject({ lease_owner: 'bob', held: true });
  });
});

test('consecutive crashes over a chunk of calls are counted, and a release resets the count', async () => {
  const kind = KINDS[3]!;
  const id = await kind.put(-1);
  await kind.claim(db, ALICE);
  await later(db, EXPIRED_MS, (trx) => kind.claim(trx, BOB));
  const [taken] = await later(db, 2 * EXPIRED_MS, (trx) => kind.claim(trx, ALICE));
  expect(taken).toMatchObject({ takeovers: 2 });
  await releaseLease(db, { table: 'run_chunk', id, epoch: 3 });
  expect(await kind.claim(db, BOB)).toMatchObject([{ takeovers: 0 }]);
});

describe('a provider batch claimed by id', () => {
  const kind = KINDS[1]!;
  test('is claimed due or not, only in the expected state, and counts a takeover', async () => {
    const id = await kind.put(60_000);
    expect(await claimProviderBatch(db, id, 'submitted', ALICE)).toBeNull();
    expect(await claimProviderBatch(db, id, 'building', ALICE)).toMatchObject({ id, lease_epoch: 1 });
    expect(await claimProviderBatch(db, id, 'building', BOB)).toBeNull();
    const taken = await later(db, EXPIRED_MS, (trx) => claimProviderBatch(trx, id, 'building', BOB));
    expect(taken).toMatchObject({ lease_epoch: 2, takeovers: 1 });
    await releaseLease(db, leaseOf('provider_batch', taken!));
    expect(await claimProviderBatch(db, id, 'building', ALICE)).toMatchObject({
      lease_epoch: 3,
      takeovers: 1,
    });
  });
});

test('a second release changes nothing', async () => {
  const kind = KINDS[1]!;
  const id = await kind.put(-1);
  const [claimed] = await kind.claim(db, ALICE);
  const lease = leaseOf('provider_batch', claimed!);
  await releaseLease(db, lease, 0);
  await releaseLease(db, lease, 60_000);
  expect(await kind.claim(db, BOB)).toMatchObject([{ id }]);
});

test('a clean stop releases neither a provider batch in submission nor its credential', async () => {
  const kind = KINDS[1]!;
  const id = await kind.put(-1);
  await kind.claim(db, ALICE);
  await sql`update provider_batch set state = 'submitting', submit_started_at = app_now(), body_bytes = 1, body_sha256 = 'aa'
    where id = ${id}::uuid`.execute(db);
  const credential = await claimCredential(db, 'default', ALICE);
  await releaseAllLeases(db, 'alice');
  expect(await read('provider_batch', id)).toMatchObject({ lease_owner: 'alice', held: true });
  // Nor the right to another send, until the submission ends.
  expect(await claimCredential(db, 'default', BOB)).toBeNull();
  await sql`update provider_batch set state = 'building' where id = ${id}::uuid`.execute(db);
  await releaseAllLeases(db, 'alice');
  expect(await claimCredential(db, 'default', BOB)).toMatchObject({ epoch: credential!.epoch + 1 });
});

describe('a credential', () => {
  beforeEach(() =>
    sql`update credential set lease_until = '-infinity', lease_owner = null, lease_epoch = 0, paused_until = null, failures = 0, refusals = 0`.execute(
      db,
    ),
  );

  test('has one holder until the lease ends', async () => {
    const lease = await claimCredential(db, 'default', ALICE);
    expect(lease).toMatchObject({ table: 'credential', epoch: 1 });
    expect(await claimCredential(db, 'default', BOB)).toBeNull();
    expect(await renew(db, 'credential', lease!)).toEqual([lease!.id]);
    const taken = await later(db, EXPIRED_MS, (trx) => claimCredential(trx, 'default', BOB));
    expect(taken).toEqual({ ...lease, epoch: 2 });
    expect(await renew(db, 'credential', lease!)).toEqual([]);
    await expect(inTransaction(db, (trx) => holdLease(trx, lease!))).rejects.toMatchObject({
      code: 'fenced',
    });
    await releaseCredential(db, lease!, { kind: 'failed', pause_ms: 60_000, reason: 'too late' });
    const row = await db.selectFrom('credential').selectAll().executeTakeFirstOrThrow();
    expect(row).toMatchObject({ lease_owner: 'bob', lease_epoch: 2, paused_until: null, pause_reason: null });
    await releaseAllLeases(db, 'bob');
    expect(await claimCredential(db, 'default', ALICE)).toMatchObject({ epoch: 3 });
  });

  test('without a row is not granted', async () => {
    expect(await claimCredential(db, 'unheard-of', ALICE)).toBeNull();
  });

  test('is paused after a release with a pause, until the pause ends', async () => {
    const lease = await claimCredential(db, 'default', ALICE);
    await releaseCredential(db, lease!, {
      kind: 'failed',
      pause_ms: 60_000,
      reason: 'the provider is overloaded',
    });
    expect(await claimCredential(db, 'default', BOB)).toBeNull();
    const paused = await db.selectFrom('credential').selectAll().executeTakeFirstOrThrow();
    expect(paused.pause_reason).toBe('the provider is overloaded');
    expect(await later(db, 60_001, (trx) => claimCredential(trx, 'default', BOB))).toMatchObject({
      epoch: 2,
    });
    const again = await db.selectFrom('credential').selectAll().executeTakeFirstOrThrow();
    expect(again).toMatchObject({ paused_until: null, pause_reason: null });
  });

  test('counts refusals as bad until an accepted create, and other failures until an answer', async () => {
    const counts = [];
    for (const kind of ['refused', 'failed', 'failed', 'unused', 'refused', 'failed', 'works'] as const) {
      const lease = await claimCredential(db, 'default', ALICE);
      counts.push([lease?.failures, lease?.refusals]);
      await releaseCredential(db, lease!, { kind, pause_ms: 0, reason: 'said so' });
    }
    expect(counts).toEqual([
      [0, 0],
      [0, 1],
      [1, 1],
      [2, 1],
      [2, 1],
      [0, 2],
      [1, 2],
    ]);
    expect(await claimCredential(db, 'default', ALICE)).toMatchObject({ failures: 0, refusals: 0 });
  });

  test('stays halted or paused when a sender releases it after that', async () => {
    for (const verdict of [
      { kind: 'works' },
      { kind: 'unused' },
      { kind: 'failed', pause_ms: 1_000, reason: 'the provider is overloaded' },
    ] as const) {
      const lease = await claimCredential(db, 'default', ALICE);
      await haltCredential(db, 'default', 'two for one');
      await releaseCredential(db, lease!, verdict);
      expect(await later(db, 10 * 86_400_000, (trx) => claimCredential(trx, 'default', BOB))).toBeNull();
      const halted = await db.selectFrom('credential').select('pause_reason').executeTakeFirstOrThrow();
      expect(halted.pause_reason).toMatch(/two for one$/);
      expect(await inTransaction(db, (trx) => resumeCredential(trx, 'default'))).toMatch(/two for one$/);
    }
    const lease = await claimCredential(db, 'default', ALICE);
    await pauseCredential(db, 'default', 60_000, 'an operator');
    await releaseCredential(db, lease!, { kind: 'works' });
    expect(await later(db, 59_000, (trx) => claimCredential(trx, 'default', BOB))).toBeNull();
    expect(await later(db, 61_000, (trx) => claimCredential(trx, 'default', BOB))).not.toBeNull();
  });

  test.each([
    [PAUSE_REASONS.unauthorized, true],
    [PAUSE_REASONS.spend_limit, true],
    [PAUSE_REASONS.bad_request, true],
    [PAUSE_REASONS.unanswered, true],
    [`${ACCOUNT_TROUBLE}billing_error`, true],
    [PAUSE_REASONS.rate_limited, false],
    [PAUSE_REASONS.overloaded, false],
  ])('paused because "%s" is resumed: %s', async (reason, ends) => {
    const id = await putBuilding(60_000);
    await pauseCredential(db, 'default', 60_000, reason);
    expect(await inTransaction(db, (trx) => resumeCredential(trx, 'default'))).toBe(ends ? reason : null);
    expect(await readPausedCredentials(db)).toHaveLength(ends ? 0 : 1);
    expect((await claimDueSend(db, ALICE)).batch?.id).toBe(ends ? id : undefined);
    expect(await claimCredential(db, 'default', ALICE)).toEqual(ends ? expect.anything() : null);
  });

  test('is not resumed once its pause has ended', async () => {
    await pauseCredential(db, 'default', 60_000, PAUSE_REASONS.unauthorized);
    expect(await later(db, 60_001, (trx) => resumeCredential(trx, 'default'))).toBeNull();
  });

  test('makes exactly its waiting provider batches due when it is resumed, leased or not', async () => {
    const waits = [await putBuilding(60_000), await putBuilding(3_600_000)];
    const due = await putBuilding(-60_000);
    const polled = await putSubmitted(60_000);
    const isDue = async (id: string): Promise<boolean> => {
      const { rows } = await sql<{ due: boolean }>`
        select next_due_at <= app_now() as due from provider_batch where id = ${id}::uuid`.execute(db);
      return rows[0]!.due;
    };
    const { rows: before } =
      await sql`select next_due_at from provider_batch where id = ${due}::uuid`.execute(db);
    expect(await inTransaction(db, (trx) => resumeCredential(trx, 'default'))).toBeNull();
    expect(await Promise.all(waits.map(isDue))).toEqual([false, false]);
    await haltCredential(db, 'default', 'two for one');
    const held = await claimProviderBatch(db, waits[0]!, 'building', ALICE);
    expect(held).not.toBeNull();
    expect(await inTransaction(db, (trx) => resumeCredential(trx, 'default'))).toMatch(/two for one$/);
    expect(await Promise.all([...waits, polled].map(isDue))).toEqual([true, true, false]);
    const { rows: after } = await sql`select next_due_at from provider_batch where id = ${due}::uuid`.execute(
      db,
    );
    expect(after).toEqual(before);
  });

  test('is resumed during a put-off: the provider batch is due all the same', async () => {
    const id = await putBuilding(-1);
    const lease = leaseOf('provider_batch', (await claimDueSend(db, ALICE)).batch!);
    await haltCredential(db, 'default', 'two for one');
    const [putOff, resumed] = [gate(), gate()];
    const putting = inTransaction(db, async (trx) => {
      expect(await lockPauseMs(trx, 'default', 60_000)).toBe(60_000);
      putOff.open();
      await resumed.opened;
      await commitPutOff(trx, lease, 60_000);
    });
    await putOff.opened;
    const resuming = inTransaction(db, (trx) => resumeCredential(trx, 'default'));
    await untilLockIsAwaited(db);
    resumed.open();
    await putting;
    expect(await resuming).toMatch(/two for one$/);
    expect((await claimDueSend(db, BOB)).batch?.id).toBe(id);
    // In the other order: a put-off after the resume finds no pause.
    expect(await inTransaction(db, (trx) => lockPauseMs(trx, 'default', 60_000))).toBe(0);
  });

  test('can be sent under until a halt or takeover, and a halt waits for a sender that has checked', async () => {
    const lease = await claimCredential(db, 'default', ALICE);
    const mayUse = (of: Lease): Promise<boolean> => inTransaction(db, (trx) => lockUsable(trx, of));
    expect(await mayUse({ ...lease!, epoch: lease!.epoch - 1 })).toBe(false);
    const [looked, committed] = [gate(), gate()];
    const looking = inTransaction(db, async (trx) => {
      const usable = await lockUsable(trx, lease!);
      looked.open();
      await committed.opened;
      return usable;
    });
    await looked.opened;
    const halting = haltCredential(db, 'default', 'two for one');
    await untilLockIsAwaited(db);
    committed.open();
    expect(await looking).toBe(true);
    await halting;
    expect(await mayUse(lease!)).toBe(false);
  });

  test('is granted once to many simultaneous claimants, and no claimant waits', async () => {
    const [claimed, committed] = [gate(), gate()];
    const alice = inTransaction(db, async (trx) => {
      const lease = await claimCredential(trx, 'default', ALICE);
      claimed.open();
      await committed.opened;
      return lease;
    });
    await claimed.opened;
    const bob = await inTransaction(db, async (trx) => {
      await sql`set local lock_timeout = '1ms'`.execute(trx);
      return claimCredential(trx, 'default', BOB);
    });
    expect(bob).toBeNull();
    committed.open();
    expect(await alice).not.toBeNull();
    const winners = await Promise.all(
      Array.from({ length: 8 }, () => later(db, EXPIRED_MS, (trx) => claimCredential(trx, 'default', BOB))),
    );
    expect(winners.filter((lease) => lease !== null).length).toBeLessThanOrEqual(1);
  });

  test('is granted during a sealing for it', async () => {
    await acceptBareFleet(db, 1);
    const batch = { id: newId(), project_id: DEFAULT_PROJECT_ID, credential: 'default', nonce: newNonce() };
    const [sealed, committed] = [gate(), gate()];
    const sealing = inTransaction(db, async (trx) => {
      const { requests } = await sealReadyRuns(trx, batch, 10);
      sealed.open();
      await committed.opened;
      return requests;
    });
    await sealed.opened;
    const lease = await claimCredential(db, 'default', ALICE);
    committed.open();
    expect(await sealing).toBe(1);
    expect(lease).not.toBeNull();
  });
});

test('a claim of polls returns the time of the next poll, with or without a due poll', async () => {
  expect(await claimDuePolls(db, 10, ALICE)).toMatchObject({ batches: [], next_in_ms: null });
  await putSubmitted(60_000);
  const id = await putSubmitted(-1);
  const polls = await claimDuePolls(db, 10, ALICE);
  expect(polls.batches.map((batch) => batch.id)).toEqual([id]);
  expect(polls.next_in_ms).toBeGreaterThan(50_000);
  expect(polls.next_in_ms).toBeLessThanOrEqual(60_000);
  expect(await claimDuePolls(db, 10, BOB)).toMatchObject({ batches: [], now: expect.any(Date) as Date });
});

describe('a claim of looks', () => {
  const SPACING_MS = 10_000;
  const LOOK = { credential: 'default', spacing_ms: SPACING_MS, ahead_ms: 60_000 };
  beforeEach(() => sql`update credential set look_from = null`.execute(db));
  const looks = (on: Database, claimant: Claimant) => claimLooks(on, 10, claimant, LOOK);
  const release = (on: Database) =>
    sql`update provider_batch set lease_until = '-infinity', lease_owner = null, next_due_at = app_now()`.execute(
      on,
    );

  test('grants two workers that always have a due batch at most six looks a minute', async () => {
    await putSubmitted(-1);
    const lookedAt: number[] = [];
    for (let second = 0; second < 180; second++) {
      for (const claimant of [ALICE, BOB]) {
        await later(db, second * 1_000, async (trx) => {
          const { batches, now, next_in_ms } = await looks(trx, claimant);
          if (batches.length === 0) expect(next_in_ms).toBeLessThanOrEqual(SPACING_MS);
          else lookedAt.push(now.getTime());
          await release(trx);
        });
      }
    }
    expect(lookedAt.length).toBeGreaterThanOrEqual(17);
    for (const from of lookedAt)
      expect(lookedAt.filter((at) => at >= from && at < from + 60_000).length).toBeLessThanOrEqual(6);
  });

  test('grants one of many simultaneous claims', async () => {
    await putSubmitted(-1);
    const claims = await Promise.all(Array.from({ length: 8 }, () => looks(db, BOB)));
    expect(claims.filter(({ batches }) => batches.length > 0)).toHaveLength(1);
  });

  test('takes batches that will be due soon along with a due one, and nothing without a due one', async () => {
    const soon = await putSubmitted(50_000);
    const missing = await putSubmitted(50_000);
    await sql`update provider_batch set missing_since = app_now() where id = ${missing}::uuid`.execute(db);
    const late = await putSubmitted(100_000);
    expect(await looks(db, ALICE)).toMatchObject({
      batches: [],
      next_in_ms: expect.closeTo(50_000, -4) as number,
    });
    const due = await putSubmitted(-1);
    const { batches, next_in_ms } = await looks(db, ALICE);
    expect(batches.map(({ id }) => id)).toEqual([due, soon]);
    expect(next_in_ms).toBeGreaterThan(40_000);
    expect([missing, late]).not.toContain(batches[0]?.id);
  });

  test('is possible again after the spacing, though the last claimant crashed, and later after more calls', async () => {
    await putSubmitted(-1);
    expect((await looks(db, ALICE)).batches).toHaveLength(1);
    await putSubmitted(-1);
    const by = (ms: number) => later(db, ms, (trx) => looks(trx, BOB));
    expect((await by(SPACING_MS - 1_000)).batches).toEqual([]);
    expect((await by(SPACING_MS + 1_000)).batches).toHaveLength(1);
    await later(db, SPACING_MS + 1_000, async (trx) => {
      await release(trx);
      await chargeLooks(trx, 'default', 2 * SPACING_MS);
    });
    expect((await by(3 * SPACING_MS)).batches).toEqual([]);
    expect((await by(4 * SPACING_MS + 2_000)).batches).toHaveLength(2);
  });

  test('costs no look when another worker has locked the due batches', async () => {
    await putSubmitted(-1);
    await inTransaction(db, async (trx) => {
      await sql`select from provider_batch for update`.execute(trx);
      expect((await looks(db, BOB)).batches).toEqual([]);
    });
    expect((await looks(db, BOB)).batches).toHaveLength(1);
  });
});

test('a claim of sends returns the time of the next send: no signal announces the end of a pause', async () => {
  expect(await claimDueSend(db, ALICE)).toEqual({ batch: null, next_in_ms: null });
  await putBuilding(60_000);
  const id = await putBuilding(-1);
  const first = await claimDueSend(db, ALICE);
  expect(first.batch?.id).toBe(id);
  const second = await claimDueSend(db, BOB);
  expect(second.batch).toBeNull();
  expect(second.next_in_ms).toBeGreaterThan(50_000);
  expect(second.next_in_ms).toBeLessThanOrEqual(60_000);
});

test('crashed polls are counted until an orderly poll, which is no trial of the content', async () => {
  const id = await putSubmitted(-1);
  const crashes = async (claimant: Claimant): Promise<number> =>
    (await claimProviderBatch(db, id, 'submitted', claimant))!.crash_count;
  expect(await crashes(ALICE)).toBe(0);
  await sql`update provider_batch set lease_until = app_now() - interval '1 second' where id = ${id}::uuid`.execute(
    db,
  );
  const taken = (await claimProviderBatch(db, id, 'submitted', BOB))!;
  expect(taken.crash_count).toBe(1);
  await releaseLease(db, { table: 'provider_batch', id, epoch: taken.lease_epoch }, 0);
  expect(await crashes(ALICE)).toBe(0);
});
