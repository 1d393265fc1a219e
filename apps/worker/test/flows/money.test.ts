import type { Cap } from '@nightshift/agent-core';
import {
  auditInvariants,
  changeCaps,
  DEFAULT_PROJECT_ID,
  inTransaction,
  pauseBatch,
  requestBatchCancel,
  resumeBatch,
} from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { SettingsChange } from '../../../simulator/src/index.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps, FlowReport } from '../../src/flow-parts/deps.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { call, openHouse, type House, type SubmittedRun } from './house.ts';

const USD = 1e9;
const dollars = (usd: number): Cap => ({ cost_nanousd: Math.round(usd * USD), output_tokens: null });
const tokens = (output_tokens: number): Cap => ({ cost_nanousd: null, output_tokens });

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

/** A run that appends to its memory in `calls` steps, and then answers. */
function looping(calls: number, rest: Partial<SubmittedRun> = {}): SubmittedRun {
  return {
    input: Array.from({ length: calls }, (_, index) =>
      call('core_memory_append', { label: 'notes', content: `line ${index}` }),
    ).join('\n'),
    blocks: { notes: 'old' },
    tools: ['core_memory_append'],
    ...rest,
  };
}

interface BudgetRow {
  readonly state: string;
  readonly state_reason: string | null;
  readonly room: string;
  readonly spent: number;
  readonly reserved: number;
  readonly spent_tokens: number;
  readonly reserved_tokens: number;
}

async function budgetOf(batchId: string): Promise<BudgetRow> {
  const [row] = await house.rows<BudgetRow>(
    `select b.state, b.state_reason, g.room, g.spent_nanousd::float8 as spent, g.reserved_nanousd::float8 as reserved,
            g.spent_output_tokens::float8 as spent_tokens, g.reserved_output_tokens::float8 as reserved_tokens
       from batch b join batch_budget g on g.batch_id = b.id where b.id = $1`,
    [batchId],
  );
  return row ?? expect.fail('no budget');
}

const raise = (batchId: string, change: Parameters<typeof changeCaps>[3]): Promise<number> =>
  inTransaction(house.database.db, (trx) => changeCaps(trx, DEFAULT_PROJECT_ID, batchId, change));
const pause = (batchId: string): Promise<void> =>
  inTransaction(house.database.db, (trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, batchId, 'test'));
const resume = (batchId: string): Promise<number> =>
  inTransaction(house.database.db, (trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, batchId));
const inOrder = async (): Promise<void> => expect(await auditInvariants(house.database.db)).toEqual([]);

describe('a cap on a batch', () => {
  test('a $1 cap over 100 concurrent runs: never above $1 in our books or the provider’s, and all end when it is raised', async () => {
    // Each step costs about a cent, and all together more than a dollar.
    const fleet = Array.from({ length: 100 }, () =>
      looping(1, { model: 'anthropic/claude-fable-5', blocks: { notes: 'old '.repeat(2_000) } }),
    );
    const batch = await house.submit(fleet, { cap: dollars(1) });
    let highest = 0;
    const watch = async (): Promise<void> => {
      const { spent, reserved } = await budgetOf(batch.id);
      highest = Math.max(highest, spent + reserved);
    };
    const workers = Array.from({ length: 3 }, () =>
      house.worker({ settings: { requests_max: 20, chunk_lines: 7 }, hooks: watch }),
    );
    await Promise.all(workers.map((worker) => house.drive(worker, { rounds: 3_000 })));

    const stopped = await budgetOf(batch.id);
    expect(stopped).toMatchObject({ state: 'paused', reserved: 0, reserved_tokens: 0 });
    expect(stopped.state_reason).toContain('max_cost_usd');
    // The cap was used, and never exceeded by a billionth.
    expect(highest).toBeGreaterThan(0.9 * USD);
    expect(highest).toBeLessThanOrEqual(USD);
    const { totals } = house.simulator.control.ledger();
    expect(totals.usd).toBeLessThanOrEqual(1);
    expect(totals.usd).toBeCloseTo(stopped.spent / USD, 6);
    await inOrder();

    await raise(batch.id, { cost_nanousd: 20 * USD });
    await Promise.all(workers.map((worker) => house.drive(worker, { rounds: 3_000 })));
    expect(new Set((await house.runsOf(batch.id)).map((run) => run.stop_reason))).toEqual(
      new Set(['end_turn']),
    );
    const { repeated } = house.simulator.control.ledger();
    expect(repeated.logical_keys).toBe(0);
    expect(await budgetOf(batch.id)).toMatchObject({ state: 'completed', state_reason: null, reserved: 0 });
    await inOrder();
  });

  test('released reservations let waiting runs go on, without a higher cap', async () => {
    // Three requests fit at a time by their worst case; their real cost leaves room for all.
    const batch = await house.submit(
      Array.from({ length: 12 }, () => ({ input: 'Say hello.' })),
      { cap: tokens(3 * 1_024 + 500) },
    );
    const worker = house.worker();
    await composeProviderBatch(worker);
    expect(await budgetOf(batch.id)).toMatchObject({
      state: 'running',
      room: 'short',
      reserved_tokens: 3 * 1_024,
    });
    await inOrder();
    await house.drive(worker);
    expect((await house.runsOf(batch.id)).every((run) => run.state === 'completed')).toBe(true);
    expect(await budgetOf(batch.id)).toMatchObject({ state: 'completed', reserved_tokens: 0, room: 'open' });
    await inOrder();
  });

  test('too low for the first request pauses the batch before anything is sent, and is the stated reason', async () => {
    const batch = await house.submit([{ input: 'Say hello.' }], { cap: tokens(1_000) });
    await house.drive(house.worker());
    expect(await budgetOf(batch.id)).toMatchObject({
      state: 'paused',
      state_reason: expect.stringMatching(
        /^max_output_tokens leaves no room for the next step, which may take (\d+) tokens and needs a cap of \1 tokens;/,
      ) as string,
      spent_tokens: 0,
    });
    expect(house.simulator.control.ledger().totals.requests).toBe(0);
    expect(await house.rows('select 1 from provider_batch')).toEqual([]);
    await inOrder();
  });

  test('raised, queues every waiting run exactly once, and removed, lets all go', async () => {
    const batch = await house.submit(
      Array.from({ length: 600 }, () => ({ input: 'Say hello.' })),
      { cap: tokens(1_000) },
    );
    await house.drive(house.worker());
    expect(await raise(batch.id, { output_tokens: null })).toBe(600);
    const chunks = await house.rows<{ runs: number; ids: number }>(
      `select count(*)::int as runs, count(distinct u.id)::int as ids from run_chunk, unnest(run_ids) as u(id)`,
    );
    expect(chunks).toEqual([{ runs: 600, ids: 600 }]);
    expect(await raise(batch.id, { output_tokens: 9_999_999 })).toBe(0);
    await house.drive(house.worker());
    expect((await house.runsOf(batch.id)).every((run) => run.state === 'completed')).toBe(true);
    await inOrder();
  });

  test('raised to less than the next step needs stays paused and says so', async () => {
    const batch = await house.submit([{ input: 'Say hello.' }], { cap: tokens(1_000) });
    const worker = house.worker();
    await house.drive(worker);
    expect(await raise(batch.id, { output_tokens: 1_010 })).toBe(0);
    expect(await budgetOf(batch.id)).toMatchObject({
      state: 'paused',
      state_reason: expect.stringContaining('may take 1024 tokens and needs a cap of 1024 tokens') as string,
    });
    expect(await composeProviderBatch(worker)).toMatchObject({ worked: false });
    expect(await raise(batch.id, { output_tokens: 1_024 })).toBe(1);
    await house.drive(worker);
    expect(await budgetOf(batch.id)).toMatchObject({ state: 'completed' });
    await inOrder();
  });

  test('below the used amount is refused, and so is a cap on a batch without reservations', async () => {
    const batch = await house.submit([looping(1)], { cap: dollars(1) });
    await composeProviderBatch(house.worker());
    await expect(raise(batch.id, { cost_nanousd: 1 })).rejects.toMatchObject({
      code: 'validation_failed',
      fields: [{ path: '/max_cost_usd' }],
    });
    const free = await house.submit([looping(1)]);
    await expect(raise(free.id, { cost_nanousd: USD })).rejects.toMatchObject({ code: 'conflict' });
  });

  test('does not delay other batches in the same provider batch', async () => {
    const poor = await house.submit([{ input: 'Say hello.' }, { input: 'Say hello.' }], {
      cap: tokens(1_100),
    });
    const free = await house.submit([{ input: 'Say hello.' }, { input: 'Say hello.' }]);
    const report = await composeProviderBatch(house.worker());
    expect(report).toMatchObject({ requests: 3, no_room: 1 });
    await inOrder();
    expect(await house.rows('select ordinal from step order by ordinal')).toEqual([
      { ordinal: 0 },
      { ordinal: 1 },
      { ordinal: 2 },
    ]);
    await house.drive(house.worker());
    for (const { id } of [poor, free]) {
      expect((await house.runsOf(id)).map((run) => run.state)).toEqual(['completed', 'completed']);
    }
  });

  test('costs an uncapped batch no statement', async () => {
    await house.submit([looping(2)]);
    await house.drive(house.worker());
    expect(await house.rows('select 1 from step where reserved_nanousd is not null')).toEqual([]);
    expect(await house.rows('select 1 from batch_budget')).toEqual([]);
  });
});

describe('capped requests that do not fit one body', () => {
  const BODY_BYTES_MAX = 250_000;
  const DEAR = { cost_nanousd: null, output_tokens: 9_999_999 };
  const long = (count: number): SubmittedRun[] =>
    Array.from({ length: count }, (_, index) => ({ input: `${index} ${'long '.repeat(400)}` }));

  /** Composes and sends until nothing is left to compose; returns the number of encodings and the reports. */
  async function sendAll(settings: { readonly gather_window_ms?: number } = {}): Promise<{
    readonly worker: FlowDeps;
    readonly measured: number;
    readonly composed: readonly FlowReport[];
  }> {
    const worker = house.worker({ settings: { body_bytes_max: BODY_BYTES_MAX, ...settings } });
    let measured = 0;
    const measuring: FlowDeps = {
      ...worker,
      definitions: {
        get(db, ids) {
          measured += ids.length;
          return worker.definitions.get(db, ids);
        },
      },
    };
    const composed: FlowReport[] = [];
    for (;;) {
      const report = await composeProviderBatch(measuring);
      if (!report.worked) break;
      composed.push(report);
      await submitProviderBatch(worker);
    }
    return { worker, measured, composed };
  }

  test('are measured at most about twice, fill one body after the other, and keep the cap', async () => {
    const batch = await house.submit(long(600), { cap: DEAR });
    const { worker, measured, composed } = await sendAll();
    expect(measured).toBeLessThanOrEqual(2 * 600);
    expect(composed.length).toBeGreaterThan(4);
    expect(composed.reduce((sum, { requests }) => sum + Number(requests), 0)).toBe(600);
    // Each body was filled, and no part of it was taken back.
    const sent = await house.rows<{ requests: number; bytes: number }>(
      'select request_count as requests, body_bytes::int as bytes from provider_batch order by created_at, id',
    );
    expect(sent.map(({ requests }) => requests)).toEqual(composed.map(({ requests }) => requests));
    for (const { bytes } of sent.slice(0, -1)) {
      expect(bytes).toBeGreaterThan(0.9 * BODY_BYTES_MAX);
      expect(bytes).toBeLessThanOrEqual(BODY_BYTES_MAX);
    }
    expect(await budgetOf(batch.id)).toMatchObject({ room: 'open', reserved_tokens: 600 * 1_024 });
    await inOrder();
    await house.drive(worker);
    expect((await house.runsOf(batch.id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
    expect(house.simulator.control.ledger().repeated.logical_keys).toBe(0);
    await inOrder();
  });

  test('are looked at again at once, without a second gather window', async () => {
    await house.submit(long(200), { cap: DEAR });
    await house.rows(`update run_chunk set next_due_at = app_now() - interval '1 minute'`);
    const { composed } = await sendAll({ gather_window_ms: 60_000 });
    expect(composed.length).toBeGreaterThan(1);
    for (const report of composed.slice(0, -1)) expect(report).not.toHaveProperty('rest_ms');
    expect(composed.at(-1)).toMatchObject({ rest_ms: 0, left: 0 });
    expect(composed.reduce((sum, { requests }) => sum + Number(requests), 0)).toBe(200);
  });

  test('go one by one if each is longer than a body', async () => {
    const input = 'x'.repeat(2 * BODY_BYTES_MAX);
    const batch = await house.submit([{ input }, { input }, { input }], { cap: DEAR });
    const { worker, composed } = await sendAll();
    expect(composed.map(({ requests, left }) => [requests, left])).toEqual([
      [1, 2],
      [1, 1],
      [1, 0],
    ]);
    await inOrder();
    await house.drive(worker);
    expect((await house.runsOf(batch.id)).every((run) => run.state === 'completed')).toBe(true);
  });

  test('do not delay other batches, and requests without room wait for budget, not for a body', async () => {
    const poor = await house.submit(long(6), { cap: tokens(2 * 1_024 + 500) });
    const rich = await house.submit(long(300), { cap: DEAR });
    const free = await house.submit(long(50));
    const worker = house.worker({ settings: { body_bytes_max: BODY_BYTES_MAX } });
    const report = await composeProviderBatch(worker);
    expect(report).toMatchObject({ no_room: 4 });
    expect(Number(report['left'])).toBeGreaterThan(0);
    expect(Number(report['requests'])).toBe(356 - 4 - Number(report['left']));
    expect(await budgetOf(poor.id)).toMatchObject({ room: 'short', reserved_tokens: 2_048 });
    expect((await budgetOf(rich.id)).room).toBe('open');
    const states = (await house.runsOf(free.id)).map((run) => run.state);
    expect(new Set(states)).toEqual(new Set(['in_flight']));
    const ordinals = await house.rows<{ ordinal: number }>('select ordinal from step order by ordinal');
    expect(ordinals.map(({ ordinal }) => ordinal)).toEqual(ordinals.map((_, index) => index));
    const queued = await house.rows<{ batch_id: string; runs: number; ids: number }>(
      `select r.batch_id, count(*)::int as runs, count(distinct r.id)::int as ids
         from run_chunk, unnest(run_ids) as u(id) join run r on r.id = u.id and r.state = 'ready' group by 1`,
    );
    expect(queued).toEqual([{ batch_id: rich.id, runs: report['left'], ids: report['left'] }]);
    await inOrder();
    await house.drive(worker);
    for (const { id } of [poor, rich, free]) {
      expect((await house.runsOf(id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
    }
    expect(house.simulator.control.ledger().repeated.logical_keys).toBe(0);
    await inOrder();
  });
});

describe('a cap on a run', () => {
  test('is checked before the step is sent; the run ends as budget_exceeded, the others go on', async () => {
    const batch = await house.submit([
      looping(5, { cap: tokens(2 * 1_024) }),
      looping(5, { cap: dollars(0.000_001) }),
      looping(5),
    ]);
    await house.drive(house.worker());
    const runs = await house.runsOf(batch.id);
    expect(runs.map((run) => [run.state, run.stop_reason])).toEqual([
      ['completed', 'end_turn'],
      ['failed', 'budget_exceeded'],
      ['completed', 'end_turn'],
    ]);
    expect(runs[1]?.error?.message).toContain('max_cost_usd of the run');
    expect(runs[1]?.step_number).toBe(1);
    await inOrder();
  });

  test('counts the output of its earlier steps', async () => {
    const batch = await house.submit([looping(5, { cap: tokens(1_024 + 30) })]);
    await house.drive(house.worker());
    const [run] = await house.runsOf(batch.id);
    expect(run).toMatchObject({ state: 'failed', stop_reason: 'budget_exceeded' });
    expect(run?.step_number).toBeGreaterThan(1);
    const [used] = await house.rows<{ tokens: number }>('select sum(output_tokens)::int as tokens from step');
    expect(used?.tokens).toBeLessThanOrEqual(1_024 + 30);
    const [row] = await house.rows('select state from batch');
    expect(row).toEqual({ state: 'failed' });
    await inOrder();
  });

  test('that ends passes its conversation to the next run of the agent', async () => {
    const batch = await house.submit([
      { input: 'First.', cap: dollars(0.000_001) },
      { input: 'Second.', same_agent_as: 0 },
    ]);
    await house.drive(house.worker());
    expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual([
      'budget_exceeded',
      'end_turn',
    ]);
    await inOrder();
  });
});

describe('a reservation is released', () => {
  test.each<[string, SettingsChange['outcomes']]>([
    ['errored', { errored: 1, errored_type: 'invalid_request_error' }],
    ['expired', { expired: 1 }],
  ])('when the step is %s: usage is booked from answers only', async (_what, outcomes) => {
    house.simulator.control.configure({ outcomes });
    const batch = await house.submit([{ input: 'Say hello.' }], { cap: dollars(1) });
    await house.drive(
      house.worker({
        settings: {
          retry: {
            attempts_max: 1,
            retry_delay_ms: 0,
            retry_delay_ms_max: 0,
            outage_delay_ms: 0,
            outage_ms_max: 7_200_000,
          },
        },
      }),
    );
    expect(await budgetOf(batch.id)).toMatchObject({
      reserved: 0,
      reserved_tokens: 0,
      spent: 0,
      state: 'failed',
    });
    await inOrder();
  });

  test('when a request is taken back before it was sent', async () => {
    const batch = await house.submit([{ input: 'Say hello.' }, { input: 'Say hello.' }], {
      cap: tokens(9_999),
    });
    const worker = house.worker();
    await composeProviderBatch(worker);
    expect(await budgetOf(batch.id)).toMatchObject({ reserved_tokens: 2_048 });
    await pause(batch.id);
    await submitProviderBatch(worker);
    expect(await budgetOf(batch.id)).toMatchObject({ reserved: 0, reserved_tokens: 0, spent: 0 });
    await inOrder();
  });

  test('at the next look when the batch is paused, regardless of a long retry-after', async () => {
    const action = { type: 'status', code: 429, headers: { 'retry-after': '3600' } } as const;
    house.simulator.control.addRule({ op: 'create', action });
    const batch = await house.submit([{ input: 'Say hello.' }], { cap: dollars(1) });
    const worker = house.worker();
    await composeProviderBatch(worker);
    expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'refused' });
    await pause(batch.id);
    expect(await submitProviderBatch(worker)).toMatchObject({ outcome: 'withdrawn' });
    expect(await budgetOf(batch.id)).toMatchObject({ state: 'paused', reserved: 0, reserved_tokens: 0 });
    await inOrder();
  });

  test('when the batch is cancelled', async () => {
    const batch = await house.submit([looping(3), looping(3)], { cap: dollars(1) });
    const worker = house.worker();
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    await inTransaction(house.database.db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, batch.id));
    await house.drive(worker, { hasten: true });
    expect(await budgetOf(batch.id)).toMatchObject({ state: 'cancelled', reserved: 0, reserved_tokens: 0 });
    await inOrder();
  });
});

describe('an operator', () => {
  test('pauses a batch: answers at the provider are ingested, nothing more is sent, and a resume queues each run once', async () => {
    const batch = await house.submit([looping(2), looping(2), looping(2)]);
    const worker = house.worker();
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    await pause(batch.id);
    // A drive ends at once if no batch runs: each is one round of every flow.
    for (let round = 0; round < 5; round++) await house.drive(worker);
    expect(house.simulator.control.ledger().totals.requests).toBe(3);
    expect((await house.runsOf(batch.id)).map((run) => [run.state, run.step_number])).toEqual([
      ['ready', 2],
      ['ready', 2],
      ['ready', 2],
    ]);
    expect(await resume(batch.id)).toBe(3);
    expect(await resume(batch.id)).toBe(0);
    await house.drive(worker);
    expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual([
      'end_turn',
      'end_turn',
      'end_turn',
    ]);
    await inOrder();
  });

  test('keeps its pause when the cap is raised', async () => {
    const batch = await house.submit([{ input: 'Say hello.' }], { cap: tokens(1_000) });
    await house.drive(house.worker());
    await pause(batch.id);
    expect(await raise(batch.id, { output_tokens: 9_999 })).toBe(0);
    expect(await budgetOf(batch.id)).toMatchObject({ state: 'paused', state_reason: 'test' });
    expect(await resume(batch.id)).toBe(1);
    await house.drive(house.worker());
    expect(await budgetOf(batch.id)).toMatchObject({ state: 'completed' });
  });

  test('cannot pause or resume an ended batch', async () => {
    const batch = await house.submit([{ input: 'Say hello.' }]);
    await house.drive(house.worker());
    await expect(pause(batch.id)).rejects.toMatchObject({ code: 'conflict' });
    await expect(resume(batch.id)).rejects.toMatchObject({ code: 'conflict' });
    await expect(raise(batch.id, { cost_nanousd: 1 })).rejects.toMatchObject({ code: 'conflict' });
  });
});

test('max_tokens stays within the model’s maximum, doubled or not', async () => {
  await house.submit([
    { input: 'Say hello.', max_tokens: 500_000 },
    { input: 'Say hello.', max_tokens: 40_000 },
    { input: 'Say hello.', max_tokens: 10 },
  ]);
  await house.rows('update run set token_boost = 1 where ordinal > 0');
  await composeProviderBatch(house.worker());
  // Maximum of Haiku 4.5: 64,000 tokens.
  expect(
    await house.rows('select max_tokens from step s join run r on r.id = s.run_id order by r.ordinal'),
  ).toEqual([{ max_tokens: 64_000 }, { max_tokens: 64_000 }, { max_tokens: 20 }]);
});

test('a refusal before the first word is free, a later refusal is not: our books match the provider’s bill', async () => {
  const batch = await house.submit([{ input: '⟦sim:refusal⟧' }, { input: '⟦sim:refusal?mid=1⟧' }], {
    cap: dollars(1),
  });
  await house.drive(house.worker());
  expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(['refusal', 'refusal']);
  const costs = await house.rows<{ cost: number }>(
    'select cost_nanousd::float8 as cost from step s join run r on r.id = s.run_id order by r.ordinal',
  );
  expect(costs).toEqual([{ cost: 0 }, { cost: expect.any(Number) }]);
  const billed = Math.round(house.simulator.control.ledger().totals.usd * USD);
  expect(billed).toBeGreaterThan(0);
  expect(await budgetOf(batch.id)).toMatchObject({ spent: billed });
  await inOrder();
});

test('an agent with a larger window than the table’s reserves for all of it', async () => {
  const input = 'x'.repeat(300_000);
  const small = await house.submit([{ input }], { cap: dollars(10) });
  const large = await house.submit([{ input, agent: { context_window_limit: 1_000_000 } }], {
    cap: dollars(10),
  });
  await composeProviderBatch(house.worker());
  // Haiku 4.5: 200,000 tokens by the table, at a dollar for a million written to the cache for an hour.
  const answer = 1_024 * 2_500;
  expect(await budgetOf(small.id)).toMatchObject({ reserved: 200_000 * 1_000 + answer });
  expect((await budgetOf(large.id)).reserved).toBeGreaterThan(300_000 * 1_000 + answer);
});

test('an answer of a model without a price is booked without a cost, not with cost 0', async () => {
  const prices = { version: '2030-01-01', batch_factor: 0.5, web_search_per_1000: 10, models: new Map() };
  const batch = await house.submit([{ input: 'Say hello.' }], { cap: tokens(9_999) });
  await house.drive(house.worker({ settings: { prices } }));
  const [step] = await house.rows<{ cost_nanousd: null; output_tokens: number }>(
    'select cost_nanousd, output_tokens from step',
  );
  expect(step).toMatchObject({ cost_nanousd: null, output_tokens: expect.any(Number) });
  expect(await house.rows('select sum(unpriced_steps)::int as unpriced from batch_tally')).toEqual([
    { unpriced: 1 },
  ]);
  expect(await budgetOf(batch.id)).toMatchObject({ spent: 0, spent_tokens: step?.output_tokens });
  await inOrder();
});

test('a cap in dollars on a model that lost its price ends the runs rather than spend', async () => {
  const prices = { version: '2030-01-01', batch_factor: 0.5, web_search_per_1000: 10, models: new Map() };
  const batch = await house.submit([{ input: 'Say hello.' }], { cap: dollars(1) });
  await house.drive(house.worker({ settings: { prices } }));
  expect((await house.runsOf(batch.id))[0]).toMatchObject({
    stop_reason: 'budget_exceeded',
    error: { message: expect.stringContaining('no price') },
  });
  expect(house.simulator.control.ledger().totals.requests).toBe(0);
});
