import { decideResults } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import {
  claimToolsChunk,
  commitCallResults,
  commitCallsBegun,
  commitToolResults,
  holdLease,
  inTransaction,
  lockRuns,
  readActingRuns,
  type CallOutput,
  type CallResult,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import {
  acceptFleet,
  act,
  ALICE,
  callsTools,
  ingest,
  leaseOf,
  moduleCall,
  sealAndEnd,
} from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() =>
  sql`truncate batch, run, provider_batch, run_chunk, step, message, tool_call, tool_call_output cascade`.execute(
    db,
  ),
);

const callsOfRun = (runId: string) =>
  db
    .selectFrom('tool_call')
    .select(['state', 'held_result', 'started_at', 'ended_at', 'duration_ms'])
    .where('run_id', '=', runId)
    .orderBy('call_index')
    .execute();

test('results are stored call by call for the next reader, and ended calls stay unchanged', async () => {
  const fleet = await acceptFleet(db, 1);
  await ingest(db, await sealAndEnd(db), callsTools(4));
  const runId = fleet.run_ids[0]!;
  const row = { run_id: runId, step_number: 1 };
  await inTransaction(db, async (trx) => {
    const begun = await commitCallsBegun(
      trx,
      [0, 1, 2].map((call_index) => ({ key: { run_id: runId, number: 1 }, call_index })),
    );
    expect(begun.map((call) => call.call_index).sort()).toEqual([0, 1, 2]);
    await commitCallResults(trx, [
      { ...row, call_index: 0, state: 'succeeded', held_result: 'seen\u0000', duration_ms: 7 },
      { ...row, call_index: 1, state: 'pending', held_result: null, duration_ms: 0 },
      { ...row, call_index: 2, state: 'unknown', held_result: 'who knows', duration_ms: 9 },
    ]);
    await commitCallResults(trx, []);
  });
  const [acting] = await readActingRuns(db, [runId]);
  expect(acting).toMatchObject({
    batch_state: 'running',
    calls: [
      { call_index: 0, state: 'succeeded', held_result: expect.stringMatching(/^seen/) },
      { call_index: 1, state: 'pending', held_result: null },
      { call_index: 2, state: 'unknown', held_result: 'who knows' },
      { call_index: 3, state: 'pending', held_result: null },
    ],
  });
  const before = await callsOfRun(runId);
  expect(before[1]).toMatchObject({ started_at: null, ended_at: null, duration_ms: null });
  await inTransaction(db, (trx) =>
    commitCallResults(trx, [
      { ...row, call_index: 0, state: 'failed', held_result: 'late', duration_ms: 1 },
      { ...row, call_index: 2, state: 'pending', held_result: null, duration_ms: 0 },
    ]),
  );
  expect(await callsOfRun(runId)).toEqual(before);
});

const outputsOf = (runId: string) =>
  db
    .selectFrom('tool_call_output')
    .select(['call_index', 'attempts', 'answer_bytes', 'stdout', 'stderr'])
    .where('run_id', '=', runId)
    .orderBy('call_index')
    .execute();

test('outputs are stored with the results, cut and storable, and only for calls that have any', async () => {
  const fleet = await acceptFleet(db, 1);
  await ingest(db, await sealAndEnd(db), callsTools(6));
  const run_id = fleet.run_ids[0]!;
  const ended = { run_id, step_number: 1, state: 'succeeded', held_result: 'seen', duration_ms: 1 } as const;
  const outputs: readonly CallOutput[] = [
    { stdout: 'a\u0000b\ud800', stderr: '"x"\\\n' },
    { stdout: 'x'.repeat(5_000), stderr: '\u0000', attempts: 3, answer_bytes: 7 },
    { stdout: '', stderr: '\u0000', attempts: 1, answer_bytes: 0 },
    { attempts: 0 },
    { attempts: 2 },
  ];
  const results = outputs.map((output, call_index): CallResult => ({ ...ended, call_index, output }));
  const open: CallResult = {
    ...{ ...ended, call_index: 5, state: 'pending', held_result: null },
    output: { stdout: 'not entered' },
  };
  await inTransaction(db, (trx) => commitCallResults(trx, [...results, open]));
  const stored = [
    { call_index: 0, attempts: 1, answer_bytes: null, stdout: 'ab\ufffd', stderr: '"x"\\\n' },
    { call_index: 1, attempts: 3, answer_bytes: 7, stdout: 'x'.repeat(4_096), stderr: null },
    { call_index: 4, attempts: 2, answer_bytes: null, stdout: null, stderr: null },
  ];
  expect(await outputsOf(run_id)).toEqual(stored);

  // A later result changes no ended call, nor its output; the end of the step adds the outputs of open calls alone.
  const late = { stdout: 'late' };
  await inTransaction(db, (trx) =>
    commitCallResults(trx, [
      { ...ended, call_index: 0, output: late },
      { ...ended, call_index: 3, output: late },
    ]),
  );
  expect(await outputsOf(run_id)).toEqual(stored);
  await act(db, (await claimToolsChunk(db, ALICE))!, 'seen', { stdout: 'at last' });
  const last = { call_index: 5, attempts: 1, answer_bytes: null, stdout: 'at last', stderr: null };
  expect(await outputsOf(run_id)).toEqual([...stored, last]);
});

test('calls of a cancelled batch are not noted as begun', async () => {
  const fleet = await acceptFleet(db, 1);
  await ingest(db, await sealAndEnd(db), callsTools());
  await sql`update batch set state = 'cancelling', cancel_requested_at = app_now()`.execute(db);
  const key = { run_id: fleet.run_ids[0]!, number: 1 };
  expect(await inTransaction(db, (trx) => commitCallsBegun(trx, [{ key, call_index: 0 }]))).toEqual([]);
  expect(await callsOfRun(fleet.run_ids[0]!)).toMatchObject([{ state: 'pending' }]);
  expect(await readActingRuns(db, fleet.run_ids)).toMatchObject([{ batch_state: 'cancelling' }]);
});

test('an ended call never begins again, also when its end is in doubt', async () => {
  const fleet = await acceptFleet(db, 1);
  await ingest(db, await sealAndEnd(db), callsTools(4));
  const [run_id = ''] = fleet.run_ids;
  const all = [0, 1, 2, 3].map((call_index) => ({ key: { run_id, number: 1 }, call_index }));
  const begin = () => inTransaction(db, (trx) => commitCallsBegun(trx, all));
  expect(await begin()).toHaveLength(4);
  await inTransaction(db, (trx) =>
    commitCallResults(
      trx,
      (['succeeded', 'failed', 'unknown'] as const).map((state, call_index) => ({
        ...{ run_id, step_number: 1, call_index, state },
        ...{ held_result: 'seen', duration_ms: 1 },
      })),
    ),
  );
  const before = await callsOfRun(run_id);
  expect(await begin()).toEqual([{ run_id, call_index: 3 }]);
  expect((await callsOfRun(run_id)).slice(0, 3)).toEqual(before.slice(0, 3));
});

test('runs leave a chunk part by part; it keeps its lease and order, and is deleted with the last run', async () => {
  await acceptFleet(db, 5);
  await ingest(db, await sealAndEnd(db), callsTools());
  const chunk = await claimToolsChunk(db, ALICE);
  const [a, b, c, d, e] = chunk!.run_ids as [string, string, string, string, string];
  const commitPart = (part: readonly string[]) =>
    inTransaction(db, async (trx) => {
      await holdLease(trx, leaseOf('run_chunk', chunk!));
      const runs = await lockRuns(trx, part);
      const results = [...runs.values()].map((run) => ({
        run,
        decision: decideResults(run, [moduleCall(0, 'toolu_0', { ok: true, result: 'seen' })]),
      }));
      return commitToolResults(trx, chunk!.id, results, part);
    });
  const rest = () =>
    db
      .selectFrom('run_chunk')
      .select(['run_ids', 'lease_owner', 'lease_epoch'])
      .where('kind', '=', 'tools')
      .execute();
  await commitPart([d, b]);
  expect(await rest()).toEqual([
    { run_ids: [a, c, e], lease_owner: ALICE.owner, lease_epoch: chunk!.lease_epoch },
  ]);
  await commitPart([a]);
  await commitPart([c, e]);
  expect(await rest()).toEqual([]);
  const states = await db.selectFrom('run').select('state').execute();
  expect(states).toEqual(states.map(() => ({ state: 'ready' })));
});
