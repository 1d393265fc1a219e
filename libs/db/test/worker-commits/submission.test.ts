import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  commitAdopted,
  commitCancelRequested,
  commitDisproved,
  commitIngested,
  commitPolled,
  commitRefused,
  commitRejected,
  commitSearchedAgain,
  commitSplit,
  commitStreamAgain,
  commitSubmitted,
  commitUnknown,
  commitUnsealed,
  commitWithdrawn,
  commitWriteAhead,
  DEFAULT_PROJECT_ID,
  inTransaction,
  lockSendable,
  markGathered,
  newId,
  pauseBatch,
  readKnownProviderIds,
  readNow,
  readOpenSteps,
  readReadyBacklog,
  readSealedRequests,
  readTurnarounds,
  renewLeases,
  type Database,
  type Lease,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import {
  acceptBareFleet,
  acceptFleet,
  ALICE,
  answer,
  claim,
  DONE,
  end,
  gate,
  ingest,
  newNonce,
  seal,
  sealAndEnd,
  submit,
  untilLockIsAwaited,
  writeAhead,
} from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() =>
  sql`truncate batch, run, provider_batch, run_chunk, step, message, tool_call cascade`.execute(db),
);

async function row(id: string) {
  return db.selectFrom('provider_batch').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
}

async function unknown(count: number): Promise<Lease> {
  await acceptFleet(db, count);
  const { id } = await seal(db);
  const lease = await writeAhead(db, id);
  await inTransaction(db, (trx) => commitUnknown(trx, lease, 'the connection was cut', 0));
  return claim(db, id, 'unknown');
}

const UNHELD = { lease_owner: null, lease_until: -Infinity };

describe('writing ahead', () => {
  test('stores the submission and returns its time', async () => {
    await acceptFleet(db, 2);
    const { id } = await seal(db);
    const lease = await claim(db, id, 'building');
    const before = await readNow(db);
    const at = await inTransaction(db, (trx) =>
      commitWriteAhead(trx, lease, { request_count: 2, bytes: 1234, sha256: 'beef' }),
    );
    expect(at.getTime()).toBeGreaterThanOrEqual(before.getTime());
    expect(await row(id)).toMatchObject({
      state: 'submitting',
      body_bytes: 1234,
      body_sha256: 'beef',
      submit_started_at: at,
      lease_owner: 'alice',
    });
  });

  test('refuses a body with a different number of requests', async () => {
    await acceptFleet(db, 2);
    const { id } = await seal(db);
    const lease = await claim(db, id, 'building');
    const body = { request_count: 1, bytes: 1, sha256: 'aa' };
    await expect(inTransaction(db, (trx) => commitWriteAhead(trx, lease, body))).rejects.toMatchObject({
      code: 'fenced',
    });
    expect(await row(id)).toMatchObject({ state: 'building' });
  });
});

describe('a provider batch before its send', () => {
  test('makes a pause wait until the write-ahead, and sees an earlier pause', async () => {
    const fleet = await acceptFleet(db, 2);
    const pause = () => inTransaction(db, (trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, fleet.id, 'test'));
    const { id } = await seal(db);
    const lease = await claim(db, id, 'building');
    let pausing = Promise.resolve();
    await inTransaction(db, async (trx) => {
      expect(await lockSendable(trx, lease, [fleet.id])).toBe(true);
      pausing = pause();
      await untilLockIsAwaited(db);
    });
    await pausing;
    await sql`update batch set state = 'running', state_reason = null`.execute(db);

    const { opened, open } = gate();
    const { opened: paused, open: tell } = gate();
    const first = inTransaction(db, async (trx) => {
      await pauseBatch(trx, DEFAULT_PROJECT_ID, fleet.id, 'test');
      tell();
      await opened;
    });
    await paused;
    const sendable = inTransaction(db, (trx) => lockSendable(trx, lease, [fleet.id]));
    await untilLockIsAwaited(db);
    open();
    expect(await sendable).toBe(false);
    await first;
  });

  test('cannot be locked with a lost lease', async () => {
    const fleet = await acceptFleet(db, 1);
    const { id } = await seal(db);
    const lease = await claim(db, id, 'building');
    const lost = { ...lease, epoch: lease.epoch - 1 };
    await expect(inTransaction(db, (trx) => lockSendable(trx, lost, [fleet.id]))).rejects.toMatchObject({
      code: 'fenced',
    });
  });
});

describe('a wait for a locked batch', () => {
  test.each<[string, 'building' | 'submitting', (lease: Lease, batchId: string) => Promise<unknown>]>([
    [
      'before a send',
      'building',
      (lease, batchId) => inTransaction(db, (trx) => lockSendable(trx, lease, [batchId])),
    ],
    ['to take steps back', 'building', (lease) => inTransaction(db, (trx) => commitUnsealed(trx, lease, 1))],
    [
      'after a refusal',
      'submitting',
      (lease) => inTransaction(db, (trx) => commitRefused(trx, lease, { what: 'overloaded' }, 0)),
    ],
  ])('%s does not block the renewal of the own lease', async (_when, state, commit) => {
    const fleet = await acceptFleet(db, 2);
    const { id } = await seal(db);
    const lease = state === 'building' ? await claim(db, id, 'building') : await writeAhead(db, id);
    const [held, over] = [gate(), gate()];
    const sealing = inTransaction(db, async (trx) => {
      await sql`select 1 from batch where id = ${fleet.id}::uuid for no key update`.execute(trx);
      held.open();
      await over.opened;
    });
    await held.opened;
    const committed = commit(lease, fleet.id);
    await untilLockIsAwaited(db);
    const { renewed } = await inTransaction(db, async (trx) => {
      await sql`set local lock_timeout = '2s'`.execute(trx);
      return renewLeases(trx, 'provider_batch', [lease], ALICE, 'wait');
    }).finally(over.open);
    expect(renewed).toEqual(new Set([id]));
    await Promise.all([sealing, committed]);
  });
});

describe('the answer of the provider', () => {
  test('that accepts the batch stores its id and makes it due for a poll', async () => {
    await acceptFleet(db, 1);
    const { id } = await seal(db);
    const lease = await writeAhead(db, id);
    const expires_at = new Date('2026-11-22T00:00:00Z');
    await inTransaction(db, (trx) =>
      commitSubmitted(trx, lease, { provider_id: 'msgbatch_a', expires_at }, 60_000),
    );
    const after = await row(id);
    expect(after).toMatchObject({ state: 'submitted', provider_id: 'msgbatch_a', expires_at, ...UNHELD });
    expect(after.next_due_at!.getTime() - after.submitted_at!.getTime()).toBeGreaterThan(59_000);
    expect(await readKnownProviderIds(db, ['msgbatch_a', 'msgbatch_b'])).toEqual(new Set(['msgbatch_a']));
    expect(await readKnownProviderIds(db, [])).toEqual(new Set());
  });

  test('that refuses the batch returns it to building under the same nonce, and is counted', async () => {
    await acceptFleet(db, 1);
    const { id } = await seal(db);
    const { nonce } = await row(id);
    for (const failures of [1, 2]) {
      const lease = await writeAhead(db, id);
      await inTransaction(db, (trx) => commitRefused(trx, lease, { what: 'overloaded' }, 0));
      expect(await row(id)).toMatchObject({
        state: 'building',
        nonce,
        failures,
        error: { what: 'overloaded' },
        ...UNHELD,
      });
    }
    await submit(db, id);
    expect(await row(id)).toMatchObject({ state: 'submitted', failures: 0, error: null });
  });

  test('that is missing starts a search: after two misses it is withdrawn, under a new nonce and new attempts', async () => {
    const lease = await unknown(3);
    const before = await row(lease.id);
    await inTransaction(db, (trx) => commitSearchedAgain(trx, lease, false, 0));
    expect(await row(lease.id)).toMatchObject({ state: 'unknown', searches: 0, ...UNHELD });
    const again = await claim(db, lease.id, 'unknown');
    await inTransaction(db, (trx) => commitSearchedAgain(trx, again, true, 0));
    expect(await row(lease.id)).toMatchObject({ searches: 1 });

    const last = await claim(db, lease.id, 'unknown');
    const nonce = newNonce();
    await inTransaction(db, (trx) => commitWithdrawn(trx, last, nonce));
    expect(await row(lease.id)).toMatchObject({
      state: 'building',
      nonce,
      submission: before.submission + 1,
      searches: 0,
      ...UNHELD,
    });
    const requests = await readSealedRequests(db, lease.id, 0, 3);
    expect(requests.map((request) => [request.ordinal, request.attempt])).toEqual([
      [0, 2],
      [1, 2],
      [2, 2],
    ]);
    const runs = await db.selectFrom('run').select(['attempt', 'failures', 'state']).execute();
    expect(runs).toEqual(runs.map(() => ({ attempt: 2, failures: 0, state: 'in_flight' })));
    // And it can be sent and answered like any other provider batch.
    const ended = await end(db, lease.id);
    await ingest(db, ended, DONE);
    expect(await inTransaction(db, (trx) => commitIngested(trx, ended, 0))).toBe(true);
  });

  test('that is missing for a batch whose steps have all ended: nothing is sent again', async () => {
    const lease = await unknown(1);
    // Its only step was settled, and the worker crashed before it could reject the batch.
    await ingest(db, lease, {
      kind: 'errored',
      error_class: 'permanent',
      error_type: 'invalid_request_error',
      message: 'no',
    });
    await inTransaction(db, (trx) => commitWithdrawn(trx, lease, newNonce()));
    expect(await row(lease.id)).toMatchObject({ state: 'rejected', next_due_at: null, ...UNHELD });
  });

  test('found at the provider later is adopted, dated by its submission', async () => {
    const lease = await unknown(1);
    const { submit_started_at } = await row(lease.id);
    await inTransaction(db, (trx) =>
      commitAdopted(trx, lease, { provider_id: 'msgbatch_found', expires_at: null }),
    );
    expect(await row(lease.id)).toMatchObject({
      state: 'submitted',
      provider_id: 'msgbatch_found',
      submitted_at: submit_started_at,
      ...UNHELD,
    });
  });

  test('adopted and disproved is searched for again, and the wrong batch is remembered', async () => {
    const lease = await unknown(1);
    await inTransaction(db, (trx) =>
      commitAdopted(trx, lease, { provider_id: 'msgbatch_foreign', expires_at: null }),
    );
    const polled = await claim(db, lease.id, 'submitted');
    const ended = { lease: polled, move: 'ended', delay_ms: 0, missing: false } as const;
    await inTransaction(db, (trx) => commitPolled(trx, [ended]));
    const streamed = await claim(db, lease.id, 'ended');
    await inTransaction(db, (trx) => commitDisproved(trx, streamed, 'ended'));
    expect(await row(lease.id)).toMatchObject({
      state: 'unknown',
      provider_id: null,
      not_ours: ['msgbatch_foreign'],
      ...UNHELD,
    });
    const again = await claim(db, lease.id, 'unknown');
    await inTransaction(db, (trx) => commitWithdrawn(trx, again, newNonce()));
    expect(await row(lease.id)).toMatchObject({ state: 'building' });
  });

  test('adopted resets earlier refusals, and a disproof resets the passes and absences of the wrong batch', async () => {
    await acceptFleet(db, 1);
    const { id } = await seal(db);
    const refused = await writeAhead(db, id);
    await inTransaction(db, (trx) => commitRefused(trx, refused, { what: 'overloaded' }, 0));
    const cut = await writeAhead(db, id);
    await inTransaction(db, (trx) => commitUnknown(trx, cut, 'the connection was cut', 0));
    const lease = await claim(db, id, 'unknown');
    await inTransaction(db, (trx) =>
      commitAdopted(trx, lease, { provider_id: 'msgbatch_other', expires_at: null }),
    );
    expect(await row(id)).toMatchObject({ failures: 0 });
    const polled = await claim(db, id, 'submitted');
    const ended = { lease: polled, move: 'ended', delay_ms: 0, missing: false } as const;
    await inTransaction(db, (trx) => commitPolled(trx, [ended]));
    const pass = { streamed: true, missing: true, lines_refused: 1, reason: 'cut', delay_ms: 0 };
    const streamed = await claim(db, id, 'ended');
    await inTransaction(db, (trx) => commitStreamAgain(trx, streamed, pass));
    expect(await row(id)).toMatchObject({ streams: 1, failures: 1, missing_since: expect.any(Date) as Date });
    const again = await claim(db, id, 'ended');
    await inTransaction(db, (trx) => commitDisproved(trx, again, 'ended'));
    expect(await row(id)).toMatchObject({
      state: 'unknown',
      streams: 0,
      failures: 0,
      missing_since: null,
      lines_refused: 1,
    });
  });

  test('already adopted by another row is not adopted twice', async () => {
    const first = await unknown(1);
    const second = await unknown(1);
    const remote = { provider_id: 'msgbatch_twice', expires_at: null };
    await inTransaction(db, (trx) => commitAdopted(trx, first, remote));
    await expect(inTransaction(db, (trx) => commitAdopted(trx, second, remote))).rejects.toMatchObject({
      code: 'fenced',
    });
    expect(await row(second.id)).toMatchObject({ state: 'unknown', provider_id: null });
  });
});

describe('splitting a refused batch', () => {
  test('loses nothing: two batches under new nonces, both dense, every step in one of them', async () => {
    const fleet = await acceptFleet(db, 7);
    const { id } = await seal(db);
    const before = await row(id);
    const lease = await writeAhead(db, id);
    const later = { id: newId(), nonce: newNonce() };
    const nonce = newNonce();
    await inTransaction(db, (trx) => commitSplit(trx, lease, 'submitting', 4, later, nonce));
    expect(await row(id)).toMatchObject({ state: 'building', nonce, request_count: 4, ...UNHELD });
    expect(await row(later.id)).toMatchObject({
      state: 'building',
      nonce: later.nonce,
      request_count: 3,
      credential: before.credential,
      ...UNHELD,
    });
    expect(new Set([before.nonce, nonce, later.nonce]).size).toBe(3);
    const [head, tail] = [
      await readSealedRequests(db, id, 0, 10),
      await readSealedRequests(db, later.id, 0, 10),
    ];
    expect(head.map((request) => request.ordinal)).toEqual([0, 1, 2, 3]);
    expect(tail.map((request) => request.ordinal)).toEqual([0, 1, 2]);
    expect([...head, ...tail].map((request) => request.run_id)).toEqual([...fleet.run_ids].sort());
  });

  test('repeatedly leaves each request alone', async () => {
    await acceptFleet(db, 5);
    const todo = [(await seal(db)).id];
    const alone: string[] = [];
    for (let id = todo.pop(); id !== undefined; id = todo.pop()) {
      const { request_count } = await row(id);
      if (request_count === 1) {
        alone.push(id);
        continue;
      }
      const lease = await writeAhead(db, id);
      const later = { id: newId(), nonce: newNonce() };
      await inTransaction(db, (trx) =>
        commitSplit(trx, lease, 'submitting', Math.ceil(request_count / 2), later, newNonce()),
      );
      todo.push(id, later.id);
    }
    const requests = await Promise.all(alone.map((id) => readSealedRequests(db, id, 0, 10)));
    expect(requests.map((request) => request.map(({ ordinal }) => ordinal))).toEqual([
      [0],
      [0],
      [0],
      [0],
      [0],
    ]);
    expect(new Set(requests.flat().map((request) => request.run_id)).size).toBe(5);
  });

  test('at or behind its end is refused', async () => {
    await acceptFleet(db, 2);
    const { id } = await seal(db);
    const lease = await writeAhead(db, id);
    const later = { id: newId(), nonce: newNonce() };
    await expect(
      inTransaction(db, (trx) => commitSplit(trx, lease, 'submitting', 2, later, newNonce())),
    ).rejects.toMatchObject({ code: 'fenced' });
    expect(await readSealedRequests(db, id, 0, 10)).toHaveLength(2);
  });
});

describe('a submitted batch', () => {
  test('found running, missing or ended in a poll is due for its next look', async () => {
    await acceptFleet(db, 1);
    const { id } = await seal(db);
    await submit(db, id);
    const poll = async (
      move: 'wait' | 'ended',
      missing: boolean,
    ): Promise<Awaited<ReturnType<typeof row>>> => {
      const lease = await claim(db, id, 'submitted');
      await inTransaction(db, (trx) => commitPolled(trx, [{ lease, move, delay_ms: 30_000, missing }]));
      return row(id);
    };
    const missing = await poll('wait', true);
    expect(missing).toMatchObject({ state: 'submitted', ...UNHELD });
    expect(missing.missing_since).not.toBeNull();
    expect(missing.next_due_at!.getTime()).toBeGreaterThan((await readNow(db)).getTime() + 20_000);
    expect((await poll('wait', true)).missing_since).toEqual(missing.missing_since);
    expect((await poll('wait', false)).missing_since).toBeNull();
    const ended = await poll('ended', false);
    expect(ended.state).toBe('ended');
    expect(ended.ended_at).not.toBeNull();
    expect(await inTransaction(db, (trx) => commitPolled(trx, []))).toEqual([]);
  });

  test('teaches the turnarounds of its models when it ends: the last 64 of each', async () => {
    await sql`truncate turnaround`.execute(db);
    expect(await readTurnarounds(db, 'default')).toEqual(new Map());
    const fleet = await acceptFleet(db, 3);
    await sql`insert into definition select gen_random_uuid(), project_id, agent_type, system, 'anthropic/claude/next',
                model_settings, tool_rules, tools from definition limit 1`.execute(db);
    await sql`update run set definition_id = (select id from definition where model = 'anthropic/claude/next' limit 1)
               where id = ${fleet.run_ids[2]}::uuid`.execute(db);
    const { id } = await seal(db);
    await submit(db, id);
    const { models } = await row(id);
    expect(models).toHaveLength(2);
    expect(models).toContain('claude/next');
    const lease = await claim(db, id, 'submitted');
    const wait = { lease, move: 'wait', delay_ms: 0, missing: false, turnaround_ms: 1 } as const;
    await inTransaction(db, (trx) => commitPolled(trx, [wait]));
    expect(await readTurnarounds(db, 'default')).toEqual(new Map());
    const learn = async (turnaround_ms: number): Promise<void> => {
      await sql`update provider_batch set state = 'submitted', ended_at = null where id = ${id}::uuid`.execute(
        db,
      );
      const again = await claim(db, id, 'submitted');
      const ended = { lease: again, move: 'ended', delay_ms: 0, missing: false, turnaround_ms } as const;
      await inTransaction(db, (trx) => commitPolled(trx, [ended]));
    };
    await learn(300_000);
    await learn(200_000);
    const both = new Map((models ?? []).map((model) => [model, [200_000, 300_000]]));
    expect(await readTurnarounds(db, 'default')).toEqual(both);
    expect(await readTurnarounds(db, 'another')).toEqual(new Map());
    for (let index = 0; index < 64; index++) await learn(1_000 + index);
    const kept = (await readTurnarounds(db, 'default')).get('claude/next') ?? [];
    expect([kept.length, kept[0], kept.at(-1)]).toEqual([64, 1_000, 1_063]);
  });

  test('names the models of a sample of its requests', async () => {
    const fleet = await acceptBareFleet(db, 65);
    await sql`insert into definition select gen_random_uuid(), project_id, agent_type, system, 'anthropic/last', model_settings,
                tool_rules, tools from definition limit 1`.execute(db);
    await sql`update run set definition_id = (select id from definition where model = 'anthropic/last' limit 1)
               where id = ${fleet.run_ids.toSorted().at(-1)}::uuid`.execute(db);
    const { id } = await seal(db);
    await submit(db, id);
    expect((await row(id)).models).toContain('last');
  });

  test('lets ready runs leave at once when it is ingested and no other batch is', async () => {
    const isGathered = async (): Promise<boolean> => (await readReadyBacklog(db)).gathered;
    await acceptFleet(db, 1);
    const first = await sealAndEnd(db);
    await acceptFleet(db, 1);
    const second = await sealAndEnd(db);
    await acceptFleet(db, 2);
    await sql`update run_chunk set next_due_at = app_now() + interval '1 minute'`.execute(db);
    await acceptFleet(db, 1);
    await ingest(db, first, DONE);
    expect(await isGathered()).toBe(false);
    expect(await inTransaction(db, (trx) => commitIngested(trx, first, 0))).toBe(true);
    await markGathered(db, 'ingest');
    expect(await isGathered()).toBe(false);
    await ingest(db, second, DONE);
    expect(await inTransaction(db, (trx) => commitIngested(trx, second, 0))).toBe(true);
    await markGathered(db, 'ingest');
    expect(await isGathered()).toBe(true);
    const { rows } = await sql`select gathered from run_chunk order by next_due_at`.execute(db);
    expect(rows).toEqual([{ gathered: true }, { gathered: false }]);
  });

  test('lets ready runs leave at once when two ingests end together', async () => {
    await acceptFleet(db, 1);
    const first = await sealAndEnd(db);
    await acceptFleet(db, 1);
    const second = await sealAndEnd(db);
    await acceptFleet(db, 2);
    for (const lease of [first, second]) await ingest(db, lease, DONE);
    await inTransaction(db, async (trx) => {
      await commitIngested(trx, first, 0);
      await inTransaction(db, (other) => commitIngested(other, second, 0));
      await markGathered(db, 'ingest');
    });
    await markGathered(db, 'ingest');
    expect((await readReadyBacklog(db)).gathered).toBe(true);
  });

  test('with a cancel request is polled again and ends like any other', async () => {
    await acceptFleet(db, 1);
    const { id } = await seal(db);
    await submit(db, id);
    const lease = await claim(db, id, 'submitted');
    await inTransaction(db, (trx) => commitCancelRequested(trx, lease));
    const polled = await claim(db, id, 'cancelling');
    const ended = await inTransaction(db, (trx) =>
      commitPolled(trx, [{ lease: polled, move: 'ended', delay_ms: 0, missing: false }]),
    );
    expect(ended).toEqual([id]);
  });

  test('is ingested only without open steps', async () => {
    const fleet = await acceptFleet(db, 3);
    const lease = await sealAndEnd(db);
    await ingest(db, lease, DONE, { run_ids: fleet.run_ids.slice(0, 2) });
    expect(await inTransaction(db, (trx) => commitIngested(trx, lease, 0))).toBe(false);
    expect(await row(lease.id)).toMatchObject({ state: 'ended', lease_owner: 'alice', streams: 0 });
    expect(await readOpenSteps(db, lease.id, 10)).toEqual([
      { run_id: fleet.run_ids[2], number: 1, attempt: 1 },
    ]);
    await inTransaction(db, (trx) =>
      commitStreamAgain(trx, lease, {
        streamed: true,
        missing: false,
        lines_refused: 0,
        reason: 'cut',
        delay_ms: 0,
      }),
    );
    expect(await row(lease.id)).toMatchObject({
      state: 'ended',
      streams: 1,
      failures: 1,
      error: { reason: 'cut' },
      ...UNHELD,
    });
    const again = await claim(db, lease.id, 'ended');
    await ingest(db, again, answer([{ type: 'text', text: 'late' }]));
    expect(await inTransaction(db, (trx) => commitIngested(trx, again, 2))).toBe(true);
    expect(await row(lease.id)).toMatchObject({
      state: 'ingested',
      streams: 2,
      lines_refused: 2,
      next_due_at: null,
      ...UNHELD,
    });
  });

  test.each(['building', 'submitting', 'submitted'] as const)(
    'is rejected from %s with the reason',
    async (from) => {
      await acceptFleet(db, 1);
      const { id } = await seal(db);
      const held = {
        building: () => claim(db, id, 'building'),
        submitting: () => writeAhead(db, id),
        submitted: () => submit(db, id).then(() => claim(db, id, 'submitted')),
      };
      const lease = await held[from]();
      await inTransaction(db, (trx) => commitRejected(trx, lease, from, { reason: 'test' }));
      expect(await row(id)).toMatchObject({
        state: 'rejected',
        error: { reason: 'test' },
        next_due_at: null,
        ...UNHELD,
      });
    },
  );
});
