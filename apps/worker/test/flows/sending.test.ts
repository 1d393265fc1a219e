import type {} from '../../../../test/global-setup.ts';
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { PAUSE_REASONS } from '@nightshift/agent-core';
import {
  type Database,
  DEFAULT_PROJECT_ID,
  haltCredential,
  inTransaction,
  type Lease,
  pauseBatch,
  pauseCredential,
  resumeBatch,
  resumeCredential,
} from '@nightshift/db';
import type { Signal } from '@nightshift/queue';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const MINUTE_MS = 60_000;
const submitTexts = (count: number): Promise<SubmittedBatch> =>
  house.submit(Array.from({ length: count }, (_, index) => ({ input: `text ${index}` })));
const requestsTo = (op: string) =>
  house.simulator.control.journal(0, 10_000).entries.filter((entry) => entry.op === op);

/** Makes this many provider batches, of one request each. */
async function composeTexts(worker: FlowDeps, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    await submitTexts(1);
    await composeProviderBatch(worker);
  }
}

/** Expects that every request was answered, and billed once. */
async function expectPaidOnce(batch: SubmittedBatch): Promise<void> {
  const { totals, repeated } = house.simulator.control.ledger();
  const requests = batch.run_ids.length;
  expect({ requests: totals.requests, twice: repeated.content_hashes }).toEqual({ requests, twice: 0 });
  expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(
    batch.run_ids.map(() => 'end_turn'),
  );
}

test('no other worker sends under a credential during a create, however long its worker stalls', async () => {
  const neighbour = house.worker();
  let stood = 0;
  const standStill = async (point: string): Promise<void> => {
    if (point !== 'submit.before_post') return;
    stood += 1;
    for (const table of ['provider_batch', 'credential'])
      await house.rows(
        `update ${table} set lease_until = lease_until - interval '1 minute' where lease_owner is not null`,
      );
    expect(await submitProviderBatch(neighbour)).toMatchObject({ worked: false });
    expect(requestsTo('create')).toEqual([]);
  };
  const worker = house.worker({ hooks: standStill });
  await composeTexts(worker, 2);
  expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'submitted' });
  expect(stood).toBe(1);
  await house.hasten();
  expect(await submitProviderBatch(neighbour)).toMatchObject({ outcome: 'submitted' });
});

test.each([
  ['provider_batch', 1],
  ['provider_batch', 124_999],
  ['credential', 1],
  ['credential', 124_999],
] as const)(
  'nothing is sent if the lease of the %s lasts %d ms, too short for the create and its margin, until it lasts again',
  async (table, remaining) => {
    const worker = house.worker();
    const stalled = house.worker();
    const hurried = {
      ...stalled,
      leases: {
        ...stalled.leases,
        remainingMs: (lease: Lease) =>
          lease.table === table ? remaining : stalled.leases.remainingMs(lease),
      },
    };
    const batch = await submitTexts(1);
    await composeProviderBatch(worker);
    expect(await submitProviderBatch(hurried)).toMatchObject({ outcome: 'not sent' });
    expect(requestsTo('create')).toEqual([]);
    expect(await house.rows('select state, error from provider_batch')).toEqual([
      { state: 'building', error: { reason: expect.any(String) as string } },
    ]);
    expect(await readdir(worker.settings.body_dir)).toEqual([]);
    await house.drive(worker, { hasten: true });
    await expectPaidOnce(batch);
  },
);

test('a create is sent if both leases outlast it by exactly the margin', async () => {
  const worker = house.worker();
  const leases = { ...worker.leases, remainingMs: () => worker.settings.create_timeout_ms + 5_000 };
  await composeTexts(worker, 1);
  expect(await submitProviderBatch({ ...worker, leases })).toMatchObject({ outcome: 'submitted' });
});

test.each([
  ['a halt', (db: Database) => haltCredential(db, 'default', 'two for one')],
  ['a rest', (db: Database) => pauseCredential(db, 'default', 60_000, PAUSE_REASONS.unauthorized)],
] as const)(
  '%s that comes while a body is encoded is not overtaken by the send, and lasts until it is ended',
  async (_what, stop) => {
    const { db } = house.database;
    await composeTexts(house.worker(), 1);
    const halted = house.worker({
      hooks: (point) => (point === 'submit.after_encode' ? stop(db) : undefined),
    });
    expect(await submitProviderBatch(halted)).toMatchObject({ outcome: 'put off' });
    expect(requestsTo('create')).toEqual([]);
    expect(
      await house.rows(
        'select state, failures, lease_owner, next_due_at > app_now() as waits from provider_batch',
      ),
    ).toEqual([{ state: 'building', failures: 0, lease_owner: null, waits: true }]);
    expect(
      await house.rows('select failures, lease_owner, paused_until > app_now() as paused from credential'),
    ).toEqual([{ failures: 0, lease_owner: null, paused: true }]);
    const worker = house.worker();
    expect(await submitProviderBatch(worker)).toMatchObject({ worked: false });
    await inTransaction(db, (trx) => resumeCredential(trx, 'default'));
    expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'submitted' });
  },
);

test('the write-ahead holds the sent bytes, their hash, their number and the provider’s time', async () => {
  house.simulator.control.configure({ timestamps: { skew_ms: -10 * MINUTE_MS } });
  const honest = house.worker();
  const sent: { body: Buffer; options: Parameters<ProviderPort['createBatch']>[1]; row: unknown }[] = [];
  const worker: FlowDeps = {
    ...honest,
    provider: {
      ...honest.provider,
      async createBatch(blob, options) {
        const [row] = await house.rows(
          `select state, request_count, body_bytes::int, body_sha256,
                  abs(extract(epoch from submit_started_at - app_now())) < 60 as is_new,
                  extract(epoch from submit_started_at - provider_sent_at)::float8 / 60 as behind from provider_batch`,
        );
        sent.push({ body: Buffer.from(await blob.arrayBuffer()), options, row });
        return honest.provider.createBatch(blob, options);
      },
    },
  };
  await submitTexts(3);
  await composeProviderBatch(worker);
  const report = await submitProviderBatch(worker);
  expect(sent).toHaveLength(1);
  const [{ body, options, row } = expect.fail('nothing was sent')] = sent;
  expect(report).toMatchObject({ outcome: 'submitted', requests: 3, bytes: body.length });
  expect(options).toEqual({ timeoutMs: worker.settings.create_timeout_ms });
  expect(await readdir(worker.settings.body_dir)).toEqual([]);
  expect(row).toEqual({
    state: 'submitting',
    request_count: 3,
    body_bytes: body.length,
    body_sha256: createHash('sha256').update(body).digest('hex'),
    is_new: true,
    behind: expect.closeTo(10, 0) as number,
  });
});

test('a pause during encoding takes its steps back; the others are due at once, and all are sent once', async () => {
  const worker = house.worker();
  const [paused, other] = [await submitTexts(2), await house.submit([{ input: 'of another batch' }])];
  const { db } = house.database;
  const rung: Signal[] = [];
  const hooked: FlowDeps = {
    ...worker,
    bell: {
      ring(signals) {
        rung.push(...signals);
        return Promise.resolve();
      },
    },
    hooks: (point) =>
      point === 'submit.after_encode'
        ? inTransaction(db, (trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, paused.id, 'by a person'))
        : undefined,
  };
  await composeProviderBatch(hooked);
  rung.length = 0;
  expect(await submitProviderBatch(hooked)).toMatchObject({ outcome: 'changed' });
  expect(rung).toEqual([{ kind: 'compose', id: '*' }]);
  expect(requestsTo('create')).toEqual([]);
  expect(
    await house.rows(
      `select state, request_count, lease_owner, next_due_at <= app_now() as is_due from provider_batch`,
    ),
  ).toEqual([{ state: 'building', request_count: 1, lease_owner: null, is_due: true }]);
  expect(await house.rows('select lease_owner from credential')).toEqual([{ lease_owner: null }]);
  await house.drive(worker, { hasten: true });
  await expectPaidOnce(other);
  await inTransaction(db, (trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, paused.id));
  await house.drive(worker, { hasten: true });
  const { totals, repeated } = house.simulator.control.ledger();
  expect([totals.requests, repeated.content_hashes]).toEqual([3, 0]);
});

test('a create without an answer is left alone for a full quarantine, and its credential pauses', async () => {
  house.simulator.control.addRule({ op: 'create', action: { type: 'dropBefore' } });
  const worker = house.worker({
    settings: {
      reconcile: { ...house.worker().settings.reconcile, quarantine_ms: 10 * MINUTE_MS },
      breaker: { failures_min: 2, rest_ms: 5 * MINUTE_MS, rest_ms_max: 60 * MINUTE_MS },
    },
  });
  await composeTexts(worker, 2);
  for (const rest of [0, 5]) {
    const report = await submitProviderBatch(worker);
    expect(report).toMatchObject({ outcome: 'unknown', message: expect.stringMatching(/\w/) as string });
    const [row] = await house.rows<{ wait: number; reason: string }>(
      `select extract(epoch from next_due_at - app_now())::float8 / 60 as wait, error->>'reason' as reason
         from provider_batch where id = $1 and state = 'unknown' and lease_owner is null`,
      [report['provider_batch_id']],
    );
    expect(row).toEqual({ wait: expect.closeTo(10, 0) as number, reason: report['message'] });
    const [credential] = await house.rows<{ rest: number }>(
      `select greatest(0, extract(epoch from paused_until - app_now()))::float8 / 60 as rest from credential`,
    );
    expect(credential?.rest).toBeCloseTo(rest, 0);
  }
});
