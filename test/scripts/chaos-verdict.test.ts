import type {} from '../global-setup.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { callKey } from '../../apps/worker/src/flow-parts/calls/call.ts';
import { DEFAULT_PROJECT_ID, newRunId } from '../../libs/db/src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../libs/db/src/testing/index.ts';
import { submitLoad } from '../../scripts/chaos/load.ts';
import { hasHeld, judge, type Verdict } from '../../scripts/chaos/verdict.ts';
import type { Stack } from '../../scripts/stack/stack.ts';

let database: TestDatabase;
let provider: Server;
let dir: string;
/** Answers of the provider's control port. */
let books = { totals: { requests: 0 }, repeats: [] as object[], batches: [] as object[] };

beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  provider = createServer((_, response) => response.end(JSON.stringify(books)));
  await new Promise<void>((listening) => provider.listen(0, '127.0.0.1', listening));
});
afterAll(async () => {
  provider.close();
  await database.close();
});
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nightshift-verdict-'));
  writeFileSync(join(dir, 'postgres.log'), '');
});
afterEach(async () => {
  rmSync(dir, { recursive: true, force: true });
  await database.pool.query('delete from tool_call');
});

function judgeNow(): Promise<Verdict> {
  return judge(database.db, database.pool, {
    controlUrl: `http://127.0.0.1:${(provider.address() as AddressInfo).port}`,
    effectsFile: join(dir, 'effects'),
    postgresLog: join(dir, 'postgres.log'),
  });
}

/** Stores a call of the `once` tool, and returns its key. */
async function storeCharge(state: 'succeeded' | 'unknown' = 'succeeded'): Promise<string> {
  const run = newRunId();
  await database.pool.query(
    `insert into tool_call (project_id, run_id, step_number, call_index, tool_use_id, tool_name, kind, state, ended_at)
     values ($1, $2, 1, 0, 'toolu_1', 'charge_once', 'module', $3, app_now())`,
    [DEFAULT_PROJECT_ID, run, state],
  );
  return callKey(run, 1, 0);
}

test('a succeeded call of a tool that never ran lacks an effect', async () => {
  await storeCharge();
  expect(await judgeNow()).toMatchObject({ effects: 0, effects_missing: 1, duplicated: 0 });
});

test('the effect of a call with an unknown end does not count for a succeeded call', async () => {
  await storeCharge();
  writeFileSync(join(dir, 'effects'), `${await storeCharge('unknown')} 5\n`);
  expect(await judgeNow()).toMatchObject({ effects: 1, effects_missing: 1, duplicated: 0 });
});

test('each effect counts once, and repeated effects are reported', async () => {
  const [one, two] = [await storeCharge(), await storeCharge()];
  writeFileSync(join(dir, 'effects'), `${one} 5\n${two} 6\n${one} 5\n`);
  expect(await judgeNow()).toMatchObject({ effects: 2, effects_missing: 0, duplicated: 1 });
});

test.each([
  ['no batch', [], 1],
  ['the batch that was billed first', ['msgbatch_1'], 0],
  ['the batch that was billed again', ['msgbatch_2'], 0],
])(
  'a step billed twice counts as paid twice unless a batch is booked as an orphan: %s',
  async (_what, orphans, count) => {
    books = {
      totals: { requests: 2 },
      repeats: [
        { by: 'logical_key', key: 'a', times: 2, first_batch_seq: 1, again: [{ batch_id: 'msgbatch_2' }] },
      ],
      batches: [{ id: 'msgbatch_1' }, { id: 'msgbatch_2' }],
    };
    for (const id of orphans)
      await database.pool.query(
        `insert into provider_batch (id, project_id, credential, state, nonce, request_count, provider_id)
       values (gen_random_uuid(), $1, 'default', 'orphan_paid', $2, 1, $3)`,
        [DEFAULT_PROJECT_ID, `n${id.replace('_', '')}`, id],
      );
    expect(await judgeNow()).toMatchObject({ paid_twice: count, orphans_booked: orphans.length });
    await database.pool.query('delete from provider_batch');
  },
);

test('every deadlock in the log of the server counts', async () => {
  const report = 'ERROR:  deadlock detected\nDETAIL:  update run\n';
  writeFileSync(join(dir, 'postgres.log'), `${report}LOG:  ready\n${report}`);
  expect(await judgeNow()).toMatchObject({ deadlocks: 2 });
});

test('a missing server log is an error', async () => {
  rmSync(join(dir, 'postgres.log'));
  await expect(judgeNow()).rejects.toThrow(/ENOENT.*postgres\.log/);
});

const good: Verdict = {
  runs: 2,
  steps: 6,
  lost: 0,
  duplicated: 0,
  effects: 2,
  effects_missing: 0,
  paid_twice: 0,
  orphans_booked: 1,
  orphans_adopted: 1,
  violations: [],
  deadlocks: 0,
};
const strikes = {
  kills: 1,
  pauses: 0,
  connections_cut: 0,
  failed_starts: 0,
  unexpected_ends: [],
  recoveries_ms: [900],
  waiting: new Set<never>(),
};

test('a run with kills and without losses passes', () => {
  expect(hasHeld(good, strikes)).toBe(true);
});

test.each([
  { lost: 1 },
  { duplicated: 1 },
  { effects: 0 },
  { effects_missing: 1 },
  { paid_twice: 1 },
  { violations: ['x'] },
  { deadlocks: 1 },
])('%j has not held', (change) => {
  expect(hasHeld({ ...good, ...change }, strikes)).toBe(false);
});

test.each([
  { kills: 0 },
  { unexpected_ends: ['chaos-1 ended by itself (code 1); its log: chaos-1.log'] },
  { recoveries_ms: [15_001] },
  { waiting: new Set([{ id: 'x', epoch: 1, killed_at: 0 }]) },
])('a storm with %j has not held', (change) => {
  expect(hasHeld(good, { ...strikes, ...change })).toBe(false);
});

test('a load with a missing tool is not submitted', async () => {
  const stack = { db: database.db, apiUrl: 'http://127.0.0.1:1', apiKey: 'key' } as Stack;
  await expect(submitLoad(stack, 1, join(dir, 'effects'))).rejects.toThrow(
    'There is no tool core_memory_append, memory_rethink, charge_once.',
  );
});
