import type {} from '../../../../test/global-setup.ts';
import { auditInvariants, DEFAULT_PROJECT_ID, inTransaction, pauseBatch, resumeBatch } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { RuleInput } from '../../../simulator/src/index.ts';
import { openHouse, script, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    simulator: { settings: { cancel: { delay_ms: 0, in_work: 0 }, result_order: 'submitted' } },
  });
});
afterEach(() => house.close());

const inOrder = async (): Promise<void> => expect(await auditInvariants(house.database.db)).toEqual([]);

/** Reads the costs booked by steps, billed by the provider and counted by the budget if any, in nanodollars. */
async function books() {
  const [row] = await house.rows<{ booked: number; tallied: number; spent: number | null }>(
    `select (select coalesce(sum(cost_nanousd), 0)::float8 from step) as booked,
            (select coalesce(sum(cost_nanousd), 0)::float8 from batch_tally) as tallied,
            (select sum(spent_nanousd)::float8 from batch_budget) as spent`,
  );
  const { totals } = house.simulator.control.ledger();
  return {
    ...(row ?? expect.fail('no row')),
    billed: Math.round(totals.usd * 1e9),
    requests: totals.requests,
  };
}

type Action = NonNullable<Extract<RuleInput, { action?: unknown }>['action']>;

const spoil = (action: Action, times?: number): void => {
  house.simulator.control.addRule({ op: 'results', match: times === undefined ? {} : { times }, action });
};

describe('an unusable answer', () => {
  test.each(['deep', 'no_array', 'odd_block'] as const)(
    'with %s content is booked, requested once, and ends its run with its reason',
    async (how) => {
      spoil({ type: 'unusableAnswers', how });
      const cap = { cost_nanousd: 30_000_000, output_tokens: null };
      const batch = await house.submit([{ input: 'a' }, { input: 'b' }], { cap });
      await house.drive(house.worker(), { hasten: true });
      for (const run of await house.runsOf(batch.id)) {
        expect(run).toMatchObject({ state: 'failed', stop_reason: 'unusable_answer', attempt: 1 });
        expect(run.error?.message).toMatch(/paid for and cannot be used: (nested deeper than 128|content)/);
      }
      const { booked, tallied, spent, billed, requests } = await books();
      expect(requests).toBe(2);
      expect(billed).toBeGreaterThan(0);
      expect([booked, tallied, spent]).toEqual([billed, billed, billed]);
      expect(await house.rows('select reason, bill is not null as told from result_line')).toEqual([
        { reason: 'unusable', told: true },
        { reason: 'unusable', told: true },
      ]);
      await inOrder();
      // The agent goes on.
      house.simulator.control.clearRules();
      const next = await house.submit([{ input: 'c', agent_id: batch.agent_ids[0]! }]);
      await house.drive(house.worker());
      expect(await house.runsOf(next.id)).toMatchObject([{ state: 'completed' }]);
    },
  );

  test('caused by any number of prompts never takes a batch over its cap', async () => {
    const cap = { cost_nanousd: 30_000_000, output_tokens: null };
    // The simulator does not cut this answer at max_tokens, as the provider would: it must fit.
    const runs = Array.from({ length: 12 }, () => ({
      input: '⟦sim:deepArgs?levels=4000⟧',
      max_tokens: 2_048,
    }));
    const batch = await house.submit(runs, { cap });
    await house.drive(house.worker(), { hasten: true }).catch(() => undefined);
    const { booked, spent, billed } = await books();
    expect(billed).toBeGreaterThan(0);
    expect(billed).toBeLessThanOrEqual(30_000_000);
    expect([booked, spent]).toEqual([billed, billed]);
    const ends = new Set((await house.runsOf(batch.id)).map((run) => run.stop_reason));
    expect([...ends]).toContain('unusable_answer');
    await inOrder();
  });

  test('in a batch being cancelled is booked too', async () => {
    spoil({ type: 'unusableAnswers' });
    const batch = await house.submit([{ input: 'a' }]);
    const worker = house.worker();
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    await new Promise((resolve) => setImmediate(resolve));
    for (const { id } of house.simulator.control.batches()) await house.simulator.control.command(id, 'end');
    await house.cancel(batch.id);
    await house.drive(worker, { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'cancelled' }]);
    const { booked, billed } = await books();
    expect([booked, billed > 0]).toEqual([billed, true]);
    await inOrder();
  });
});

describe('a line that is garbled', () => {
  test('is requested again, and the readable part of its cost is booked each time', async () => {
    spoil({ type: 'unusableAnswers', how: 'garbled' });
    const batch = await house.submit([{ input: 'a' }]);
    await house.drive(house.worker({ settings: { streams_max: 2 } }), { hasten: true, rounds: 500 });
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'failed', stop_reason: 'provider_error', attempt: 4 },
    ]);
    const { booked, billed, requests } = await books();
    expect([booked, requests]).toEqual([billed, 4]);
    await inOrder();
  });

  test('at first and readable later is booked once', async () => {
    spoil({ type: 'unusableAnswers', how: 'garbled' }, 1);
    const batch = await house.submit([{ input: 'a' }]);
    await house.drive(house.worker(), { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', attempt: 1 }]);
    const { booked, billed, requests } = await books();
    expect([booked, requests]).toEqual([billed, 1]);
    await inOrder();
  });

  test('and missing in later passes is booked when its step is settled as missing', async () => {
    spoil({ type: 'unusableAnswers', how: 'garbled' }, 1);
    house.simulator.control.addRule({
      op: 'results',
      match: { times: 1 },
      action: { type: 'dropLines', at: [0] },
    });
    const batch = await house.submit([{ input: 'a' }]);
    await house.drive(house.worker({ settings: { streams_max: 2 } }), { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', attempt: 2 }]);
    const { booked, billed, requests } = await books();
    expect([booked, requests]).toEqual([billed, 2]);
    await inOrder();
  });

  test('without its model is booked at the price of the agent’s model', async () => {
    spoil({ type: 'unusableAnswers', how: 'garbled' }, 1);
    house.simulator.control.addRule({
      op: 'results',
      match: { times: 1 },
      action: { type: 'dropLines', at: [0] },
    });
    const batch = await house.submit([{ input: 'a' }]);
    const worker = house.worker({ settings: { streams_max: 2 } });
    const forgetModel = async (point: string): Promise<void> => {
      if (point === 'ingest.before_end')
        await house.rows(`update result_line set bill = (bill::jsonb || '{"model": null}')::json`);
    };
    await house.drive({ ...worker, hooks: forgetModel }, { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', attempt: 2 }]);
    const { booked, billed } = await books();
    expect(booked).toBe(billed);
    await inOrder();
  });
});

/** Seals and sends all ready requests. */
async function sendAll(worker: FlowDeps): Promise<void> {
  while ((await composeProviderBatch(worker)).worked);
  while ((await submitProviderBatch(worker)).worked);
}

/** Ingests all ended batches. */
async function takeIn(worker: FlowDeps): Promise<void> {
  await house.hasten();
  await pollProviderBatches(worker);
  while ((await ingestResults(worker)).worked);
}

describe('requests cancelled at the provider’s console', () => {
  const state = async (batchId: string) => {
    const [row] = await house.rows<{ state: string; state_reason: string | null }>(
      'select state, state_reason from batch where id = $1',
      [batchId],
    );
    return row ?? expect.fail('no batch');
  };
  const cancelAtConsole = async (): Promise<void> => {
    for (const { id, status } of house.simulator.control.batches()) {
      if (status === 'ended') continue;
      await house.simulator.control.command(id, 'cancel');
      await house.simulator.control.command(id, 'end');
    }
  };

  beforeEach(() => void house.simulator.control.addRule({ op: 'create', action: { type: 'neverEnds' } }));

  test('are all sent again after a resume of their batch, and not before', async () => {
    const batch = await house.submit([{ input: 'a' }, { input: 'b' }]);
    const other = await house.submit([{ input: 'c' }]);
    const worker = house.worker({ settings: { requests_max: 2 } });
    await sendAll(worker);
    await cancelAtConsole();
    await takeIn(worker);
    for (const { id } of [batch, other]) {
      expect(await state(id)).toMatchObject({
        state: 'paused',
        state_reason: expect.stringMatching(/cancelled at the provider.*Resume the batch/),
      });
    }
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'ready', attempt: 2 },
      { state: 'ready', attempt: 2 },
    ]);
    const sent = house.simulator.control.batches().length;
    await house.hasten();
    await sendAll(worker);
    expect(house.simulator.control.batches()).toHaveLength(sent);
    await inOrder();

    house.simulator.control.clearRules();
    for (const { id } of [batch, other])
      await inTransaction(house.database.db, (trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, id));
    await house.drive(worker, { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed' }, { state: 'completed' }]);
    expect((await books()).requests).toBe(3);
    await inOrder();
  });

  test('count as no failure, however often it happens', async () => {
    const batch = await house.submit([{ input: 'a' }]);
    const worker = house.worker();
    for (let times = 1; times <= 6; times++) {
      await sendAll(worker);
      await cancelAtConsole();
      await takeIn(worker);
      expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'ready', attempt: times + 1 }]);
      await inTransaction(house.database.db, (trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, batch.id));
    }
  });

  test('change neither a batch being cancelled nor an operator’s reason', async () => {
    const [cancelled, paused] = [await house.submit([{ input: 'a' }]), await house.submit([{ input: 'b' }])];
    const worker = house.worker();
    await sendAll(worker);
    await cancelAtConsole();
    await house.cancel(cancelled.id);
    await inTransaction(house.database.db, (trx) => pauseBatch(trx, DEFAULT_PROJECT_ID, paused.id, 'mine'));
    await takeIn(worker);
    expect(await house.runsOf(cancelled.id)).toMatchObject([{ state: 'cancelled' }]);
    expect((await state(cancelled.id)).state).toMatch(/^cancell/);
    expect(await state(paused.id)).toEqual({ state: 'paused', state_reason: 'mine' });
    expect(await house.runsOf(paused.id)).toMatchObject([{ state: 'ready' }]);
  });

  test('stop a batch at its cap as well: a raised cap does not send them', async () => {
    const input = script({ tool: 'none' }, { text: 'done' });
    const batch = await house.submit([{ input }], { cap: { cost_nanousd: 8_000_000, output_tokens: null } });
    const worker = house.worker();
    await sendAll(worker);
    await house.rows(`update batch set state = 'paused', state_reason = 'at its cap' where id = $1`, [
      batch.id,
    ]);
    await house.rows(`update batch_budget set room = 'short' where batch_id = $1`, [batch.id]);
    await cancelAtConsole();
    await takeIn(worker);
    expect((await state(batch.id)).state_reason).toMatch(/cancelled at the provider/);
    expect(await house.rows('select room from batch_budget where batch_id = $1', [batch.id])).toEqual([
      { room: 'open' },
    ]);
  });
});
