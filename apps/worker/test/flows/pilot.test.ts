import type {} from '../../../../test/global-setup.ts';
import type { PilotSettings } from '@nightshift/agent-core';
import {
  auditInvariants,
  changeCaps,
  DEFAULT_PROJECT_ID,
  inTransaction,
  pauseBatch,
  readBatch,
  resumeBatch,
  type BatchRow,
  type Database,
  type NewBatch,
} from '@nightshift/db';
import { storeBody } from '@nightshift/intake/testing';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { finishBatch } from '../../src/flows/finish-batch/finish-batch.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { runToolCalls } from '../../src/flows/run-tool-calls/run-tool-calls.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { sweep } from '../../src/flows/sweep/sweep.ts';
import { call, openHouse, type House, type SubmittedBatch, type SubmittedRun } from './house.ts';

const USD = 1e9;

let house: House;
let db: Database;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  ({ db } = house.database);
  worker = house.worker();
});
afterEach(async () => {
  expect(await auditInvariants(db)).toEqual([]);
  await house.close();
});

const pilotOf = (rest: Partial<PilotSettings> = {}): PilotSettings => ({
  ...{ runs: 4, then: 'pause', failure_rate: 0.2 },
  ...rest,
});
const FAILING = 'Hello. ⟦sim:errored?type=invalid_request_error&message=The+colour+is+wrong⟧';

/** A run that appends to its memory in `calls` steps, and then answers. */
function looping(calls: number, words = 10): SubmittedRun {
  const lines = Array.from({ length: calls }, (_, index) =>
    call('core_memory_append', { label: 'notes', content: `line ${index}` }),
  );
  return {
    input: lines.length === 0 ? 'Hello.' : lines.join('\n'),
    blocks: { notes: 'old '.repeat(words) },
    tools: ['core_memory_append'],
  };
}

/** Submits `count` runs of one to three steps with a pilot. */
const submit = (count: number, pilot: PilotSettings, rest: Partial<NewBatch> = {}): Promise<SubmittedBatch> =>
  house.submit(
    Array.from({ length: count }, (_, index) => looping(index % 3)),
    { pilot, ...rest },
  );
const batchOf = (id: string): Promise<BatchRow> => readBatch(db, DEFAULT_PROJECT_ID, id);
const resume = (id: string): Promise<number> =>
  inTransaction(db, (trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, id));
const pause = (id: string): Promise<void> =>
  inTransaction(db, (trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, id, 'by hand'));

interface Places {
  readonly pilot: number[];
  readonly sent: number[];
  readonly queued: number[];
}

/** Places of the pilot's runs, of the runs with a step, and of the runs in a chunk. */
async function placesOf(id: string): Promise<Places> {
  const [row] = await house.rows<Places>(
    `select (select pilot_ordinals from batch where id = $1) as pilot,
            array(select ordinal from run r where batch_id = $1 and exists (select from step where run_id = r.id) order by 1) as sent,
            array(select ordinal from run where batch_id = $1 and id in (select unnest(run_ids) from run_chunk) order by 1) as queued`,
    [id],
  );
  return row ?? expect.fail('no row');
}

describe('a pilot', () => {
  test('goes alone; then the batch waits for a resume, with the results and the projection', async () => {
    const { id } = await submit(12, pilotOf());
    const { pilot, sent, queued } = await placesOf(id);
    expect(pilot).toHaveLength(4);
    expect({ sent, queued }).toEqual({ sent: [], queued: pilot });
    expect(await batchOf(id)).toMatchObject({ state: 'running', pilot_state: 'running', pilot_runs: 4 });
    await house.drive(worker);
    const waiting = await batchOf(id);
    expect(waiting).toMatchObject({ state: 'paused', pilot_state: 'waiting', completed: 4 });
    expect(waiting.state_reason).toMatch(
      /^The pilot of 4 runs has ended\. All 12 runs are projected to cost \$\d\.\d+ \(80 % interval: .*\)\. Resume the batch/,
    );
    expect((await placesOf(id)).sent).toEqual(pilot);
    const result = waiting.pilot_result ?? expect.fail('no result');
    expect(result).toMatchObject({
      completed: 4,
      failed: 0,
      steps_max: 3,
      stop_reasons: { end_turn: 4 },
      errors: [],
    });
    expect(result.cost_nanousd).toBe(waiting.cost_nanousd);
    // Only the resume makes it due: no worker looks at it meanwhile.
    expect(await finishBatch(worker)).toMatchObject({ worked: false });
    await house.drive(worker);
    expect((await batchOf(id)).state).toBe('paused');

    expect(await resume(id)).toBe(8);
    await house.drive(worker);
    const ended = await batchOf(id);
    expect(ended).toMatchObject({
      state: 'completed',
      pilot_state: 'passed',
      completed: 12,
      pilot_result: result,
    });
    const { low, expected, high } = result.projection.cost_nanousd ?? expect.fail('no projection');
    expect(ended.cost_nanousd).toBeGreaterThan(low ?? Infinity);
    expect(ended.cost_nanousd).toBeLessThan(high ?? 0);
    expect(expected).toBeGreaterThan(result.cost_nanousd ?? Infinity);
  });

  test('with then: continue goes on by itself', async () => {
    const { id } = await submit(12, pilotOf({ then: 'continue' }), {
      cap: { cost_nanousd: USD, output_tokens: null },
    });
    await house.drive(worker, { hasten: true });
    const batch = await batchOf(id);
    expect(batch).toMatchObject({
      state: 'completed',
      pilot_state: 'passed',
      completed: 12,
      state_reason: null,
    });
    const [row] = await house.rows<{ early: number }>(
      `select count(*)::int as early from run r join step s on s.run_id = r.id join batch b on b.id = r.batch_id
        where not r.ordinal = any(b.pilot_ordinals) and s.sealed_at < b.pilot_ended_at`,
    );
    expect(row?.early).toBe(0);
  });

  test('with too many failures pauses the batch and groups the errors', async () => {
    const runs = Array.from({ length: 10 }, (_, index) =>
      index % 2 === 0 ? { input: FAILING } : looping(1),
    );
    const { id } = await house.submit(runs, { pilot: pilotOf({ then: 'continue' }) });
    await house.drive(worker);
    const batch = await batchOf(id);
    expect(batch).toMatchObject({ state: 'paused', pilot_state: 'stopped' });
    expect(batch.state_reason).toContain('of its runs failed, more than the failure_rate of 0.2 allows');
    const { errors = [], failed } = batch.pilot_result ?? {};
    expect(errors).toEqual([{ message: expect.stringContaining('The colour is wrong'), runs: failed }]);
    await resume(id);
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({
      state: 'completed',
      pilot_state: 'passed',
      failed: 5,
      completed: 5,
    });
  });

  test('with a projection above the cap pauses the batch; a raised cap alone does not resume it', async () => {
    const { id } = await submit(200, pilotOf({ then: 'continue' }), {
      cap: { cost_nanousd: null, output_tokens: 8_500 },
    });
    await house.drive(worker, { hasten: true });
    const batch = await batchOf(id);
    expect(batch).toMatchObject({ state: 'paused', pilot_state: 'stopped', completed: 4 });
    expect(batch.state_reason).toMatch(
      /projected to write \d+ tokens, more than the max_output_tokens of 8500\. Raise the cap/,
    );
    const raised = await inTransaction(db, (trx) =>
      changeCaps(trx, DEFAULT_PROJECT_ID, id, { output_tokens: 1_000_000 }),
    );
    expect(raised).toBe(0);
    expect((await batchOf(id)).state).toBe('paused');
    expect(await resume(id)).toBe(196);
    await house.drive(worker, { hasten: true });
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 200 });
  });

  test('at its cap is resumed by a raised cap, still alone', async () => {
    const { id } = await submit(12, pilotOf(), { cap: { cost_nanousd: null, output_tokens: 1_030 } });
    await house.drive(worker, { hasten: true });
    expect(await batchOf(id)).toMatchObject({ state: 'paused', pilot_state: 'running' });
    await inTransaction(db, (trx) => changeCaps(trx, DEFAULT_PROJECT_ID, id, { output_tokens: 100_000 }));
    const { pilot, queued } = await placesOf(id);
    expect(pilot).toEqual(expect.arrayContaining(queued));
    await house.drive(worker, { hasten: true });
    expect(await batchOf(id)).toMatchObject({ state: 'paused', pilot_state: 'waiting', completed: 4 });
  });

  test('of all runs leaves nothing to wait for', async () => {
    const { id } = await submit(3, pilotOf({ runs: 20 }));
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', pilot_state: 'passed', pilot_runs: 3 });
  });

  test('paused by hand meanwhile stays paused after its end, and goes on alone when it is resumed early', async () => {
    const [first, second] = [await submit(8, pilotOf({ then: 'continue' })), await submit(8, pilotOf())];
    await pause(second.id);
    expect(await resume(second.id)).toBe(0);
    expect(await composeProviderBatch(worker)).toMatchObject({ worked: true });
    await pause(second.id);
    await resume(second.id);
    await pause(first.id);
    await house.drive(worker);
    // Its steps were taken back before the send.
    expect(await batchOf(first.id)).toMatchObject({
      state: 'paused',
      pilot_state: 'running',
      state_reason: 'by hand',
    });
    expect(await batchOf(second.id)).toMatchObject({ state: 'paused', pilot_state: 'waiting' });
    expect(await resume(first.id)).toBe(4);
    await house.drive(worker);
    expect(await batchOf(first.id)).toMatchObject({ state: 'completed', completed: 8 });
  });

  test('is stopped by a cancel, before and after its end', async () => {
    const [early, late] = [await submit(8, pilotOf()), await submit(8, pilotOf())];
    await house.cancel(early.id);
    expect(await batchOf(early.id)).toMatchObject({ state: 'cancelling', pilot_state: 'stopped' });
    await house.drive(worker);
    expect(await batchOf(late.id)).toMatchObject({ state: 'paused', pilot_state: 'waiting' });
    await house.cancel(late.id);
    await house.drive(worker);
    expect(await batchOf(early.id)).toMatchObject({ state: 'cancelled', cancelled: 8 });
    expect(await batchOf(late.id)).toMatchObject({
      state: 'cancelled',
      pilot_state: 'stopped',
      completed: 4,
      cancelled: 4,
    });
  });

  test('whose batch passes its deadline while it waits is stopped', async () => {
    const { id } = await submit(8, pilotOf(), { deadline: new Date(Date.now() + 3_600_000).toISOString() });
    await house.drive(worker);
    await house.rows(
      `update run set deadline_at = statement_timestamp(), overdue_from = statement_timestamp() where batch_id = $1 and ended_at is null`,
      [id],
    );
    await sweep(worker);
    await finishBatch(worker);
    expect(await batchOf(id)).toMatchObject({
      state: 'completed',
      pilot_state: 'stopped',
      completed: 4,
      failed: 4,
    });
  });
});

/** Runs all flows but the sweep and the finish, until the pilot's runs have ended. */
async function endPilotRuns(id: string): Promise<void> {
  for (let round = 0; round < 50; round++) {
    for (const flow of [
      composeProviderBatch,
      submitProviderBatch,
      pollProviderBatches,
      ingestResults,
      runToolCalls,
    ])
      await flow(worker);
    if ((await batchOf(id)).completed === 4) return;
  }
  expect.fail('the pilot does not end');
}

describe('the end of a pilot', () => {
  test('is decided again after a crash before its commit', async () => {
    const { id } = await submit(9, pilotOf({ then: 'continue' }));
    await endPilotRuns(id);
    const mortal = house.worker({ hooks: () => Promise.reject(new Error('the worker dies')) });
    await expect(finishBatch(mortal)).rejects.toThrow('dies');
    expect(await batchOf(id)).toMatchObject({ state: 'running', pilot_state: 'running', pilot_result: null });
    expect(await placesOf(id)).toMatchObject({ queued: [] });
    await house.bury(mortal);
    await house.hasten();
    expect(await finishBatch(worker)).toMatchObject({ worked: true, pilot: 'passed', queued: 5 });
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 9 });
  });

  test('has queued all runs when its worker dies after the commit, before the bell', async () => {
    const { id } = await submit(9, pilotOf({ then: 'continue' }));
    await endPilotRuns(id);
    const mortal = house.worker();
    const bell = { ring: () => Promise.reject(new Error('the worker dies')) };
    await expect(finishBatch({ ...mortal, bell })).rejects.toThrow('dies');
    await house.bury(mortal);
    expect((await placesOf(id)).queued).toHaveLength(5);
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 9 });
  });

  test('is found by the sweep after a crash between the commit and its mark', async () => {
    const { id } = await submit(9, pilotOf());
    await endPilotRuns(id);
    await house.rows(`update batch set next_due_at = null where id = $1`, [id]);
    expect(await finishBatch(worker)).toMatchObject({ worked: false });
    expect(await sweep(worker)).toMatchObject({ idle: 1 });
    expect(await finishBatch(worker)).toMatchObject({ worked: true, pilot: 'waiting', queued: 0 });
  });
});

describe('the sample', () => {
  test('holds no run that waits for another, so that no two pilots wait for each other', async () => {
    const runs = Array.from({ length: 9 }, (_, index): SubmittedRun =>
      index % 3 === 0 ? looping(1) : { ...looping(0), same_agent_as: index - (index % 3) },
    );
    const { id, agent_ids } = await house.submit(runs, { pilot: pilotOf({ runs: 9 }) });
    const behind = await house.submit(
      [0, 3, 6].map((index) => ({ input: 'And then?', agent_id: agent_ids[index] ?? '' })),
      { pilot: pilotOf({ runs: 2, then: 'continue' }) },
    );
    expect(await batchOf(id)).toMatchObject({ pilot_runs: 3 });
    expect(await batchOf(behind.id)).toMatchObject({ pilot_runs: 2, queued: 3 });
    // The batch behind it stays open.
    await expect(house.drive(worker, { rounds: 12 })).rejects.toThrow('not ended');
    // The next runs of the conversations have started, and are not sent.
    expect((await placesOf(id)).sent).toEqual([0, 3, 6]);
    expect(await batchOf(id)).toMatchObject({ state: 'paused', pilot_state: 'waiting', queued: 3 });
    expect(await batchOf(behind.id)).toMatchObject({ state: 'running', pilot_state: 'running' });
    await resume(id);
    await house.drive(worker);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 9 });
    expect(await batchOf(behind.id)).toMatchObject({ state: 'completed', completed: 3 });
  });

  test('holds small and large memories and inputs, wherever they stand', async () => {
    const runs = Array.from({ length: 24 }, (_, index): SubmittedRun => {
      const isLarge = index % 6 === 5;
      return index < 12
        ? looping(0, isLarge ? 5_000 : 10)
        : { input: 'Hello. '.repeat(isLarge ? 5_000 : 10) };
    });
    const { id } = await house.submit(runs, { pilot: pilotOf({ runs: 6 }) });
    const { pilot } = await placesOf(id);
    expect(pilot.filter((place) => place % 6 === 5)).toHaveLength(1);
    await house.cancel(id);
  });

  test('of a fleet is drawn over all portions, after the last', async () => {
    await house.submit(
      Array.from({ length: 12 }, (_, index) => ({ ...looping(index % 3), agent: { tags: ['fleet'] } })),
    );
    await house.drive(worker);
    const id = await storeBody(db, {
      agents: { tags: ['fleet'] },
      input: 'Hi {{ agent.name }}.',
      pilot: { runs: 3, then: 'pause' },
    });
    expect(await batchOf(id)).toMatchObject({ state: 'receiving', pilot_state: 'running', pilot_runs: null });
    const portions = house.worker({ settings: { agents_per_portion: 5 } });
    await house.drive(portions);
    expect(await batchOf(id)).toMatchObject({ state: 'paused', pilot_state: 'waiting', pilot_runs: 3 });
    const { pilot, sent } = await placesOf(id);
    expect(sent).toEqual(pilot);
    await resume(id);
    await house.drive(portions);
    expect(await batchOf(id)).toMatchObject({ state: 'completed', completed: 12 });
  });

  test('of a fleet without runs has passed, and a fleet cancelled while it is received has stopped', async () => {
    const body = { input: 'Hi.', pilot: { then: 'pause' }, allow_empty: true } as const;
    const empty = await storeBody(db, { ...body, agents: { tags: ['none'] } });
    await house.drive(worker);
    expect(await batchOf(empty)).toMatchObject({ state: 'completed', pilot_state: 'passed', pilot_runs: 0 });
    const gone = await storeBody(db, { ...body, agents: { tags: ['none'] } });
    await house.cancel(gone);
    expect(await batchOf(gone)).toMatchObject({ pilot_state: 'stopped', pilot_runs: null });
    await cancelBatch(worker);
    expect((await batchOf(gone)).state).toBe('cancelled');
  });
});

test('the projection of a pilot of 20 in 400 varied runs is within 15 % of the bill', async () => {
  // One to five steps, and memories of very different sizes, in no order.
  const runs = Array.from({ length: 400 }, (_, index) => looping((index * 7) % 5, ((index * 37) % 100) * 10));
  const { id } = await house.submit(runs, { pilot: pilotOf({ runs: 20 }) });
  await house.drive(worker, { hasten: true });
  const waiting = await batchOf(id);
  expect(waiting).toMatchObject({ state: 'paused', completed: 20 });
  const { expected } = waiting.pilot_result?.projection.cost_nanousd ?? expect.fail('no projection');
  await resume(id);
  await house.drive(worker, { hasten: true });
  const bill = (await batchOf(id)).cost_nanousd ?? expect.fail('no bill');
  expect(Math.abs(expected / bill - 1)).toBeLessThan(0.15);
});
