import type { Cap } from '@nightshift/agent-core';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { acceptBatch as makeRuns } from '../../src/flows/accept-batch/accept-batch.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { openHouse, type House, type SubmittedRun } from './house.ts';

const dollars = (usd: number): Cap => ({ cost_nanousd: Math.round(usd * 1e9), output_tokens: null });

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const inOrder = async (): Promise<void> => expect(await auditInvariants(house.database.db)).toEqual([]);

/** Runs with one step that cost about a thousandth of a dollar each. */
function tasks(count: number, rest: Partial<SubmittedRun> = {}): readonly SubmittedRun[] {
  return Array.from({ length: count }, (_, index) => ({
    input: `Task ${index}: ${'summarise these words in a few lines. '.repeat(180)}`,
    max_tokens: 8_192,
    ...rest,
  }));
}

interface Budget {
  readonly spent: number;
  readonly overshoots: number;
  readonly cut_offs: number;
}

async function budgetOf(batchId: string): Promise<Budget | undefined> {
  const [row] = await house.rows<Budget>(
    `select (spent_nanousd / 1e9)::float8 as spent, overshoots, cut_offs from batch_budget where batch_id = $1`,
    [batchId],
  );
  return row;
}

const providerBatches = async (): Promise<number> =>
  (await house.rows<{ count: number }>('select count(*)::int as count from provider_batch'))[0]?.count ?? 0;

describe('a cap does not serialise', () => {
  test('270 runs that cost about $0.28 under a cap of $1 take at most 5 provider batches', async () => {
    const batch = await house.submit(tasks(270), { cap: dollars(1) });
    await house.drive(house.worker({ settings: { chunk_lines: 1_000 } }), { rounds: 3_000 });
    expect((await house.runsOf(batch.id)).every(({ state }) => state === 'completed')).toBe(true);
    const budget = await budgetOf(batch.id);
    expect(budget?.spent).toBeGreaterThan(0.2);
    expect(budget?.spent).toBeLessThan(0.4);
    expect(budget).toMatchObject({ overshoots: 0 });
    expect(await providerBatches()).toBeLessThanOrEqual(5);
    await inOrder();
  });
});

describe('an answer cut off at its limit', () => {
  test.each([
    ['words', '⟦sim:maxTokensText⟧', [8_192]],
    ['a call', '⟦sim:maxTokensMidToolUse⟧', [8_192, 16_384]],
  ])('is asked for once more with all of max_tokens, paid and counted: %s', async (_what, input, then) => {
    const tools = ['core_memory_append'];
    await house.submit(tasks(20, { input: 'Say hello.', tools }));
    const worker = house.worker();
    await house.drive(worker);
    const long = await house.submit([{ input, max_tokens: 8_192, tools }], { cap: dollars(1) });
    await house.drive(worker);
    const steps = await house.rows<{ most: number; output: number }>(
      `select coalesce(s.answer_limit, s.max_tokens) as most, s.output_tokens as output
         from step s join run r on r.id = s.run_id where r.batch_id = $1 order by s.attempt`,
      [long.id],
    );
    expect(steps.map(({ most }) => most)).toEqual([256, ...then]);
    for (const { most, output } of steps) expect(output).toBe(most);
    expect((await house.runsOf(long.id))[0]).toMatchObject({ state: 'failed', stop_reason: 'max_tokens' });
    expect(await budgetOf(long.id)).toMatchObject({ overshoots: 0, cut_offs: 1 });
    await inOrder();
  });

  test('is not counted where its window limits it, not its cap', async () => {
    const worker = house.worker();
    await house.submit(tasks(20, { input: 'Say hello.' }));
    await house.drive(worker);
    const long = await house.submit([{ input: '⟦sim:maxTokensText⟧', max_tokens: 8_192 }], {
      cap: dollars(1),
    });
    await composeProviderBatch(worker);
    // As the fit to the window does: below the limit of 256.
    await house.rows('update step set max_tokens_fitted = 200 where answer_limit = 256');
    await house.drive(worker);
    expect(await house.runsOf(long.id)).toMatchObject([{ state: 'failed', attempt: 1 }]);
    expect(await budgetOf(long.id)).toMatchObject({ cut_offs: 0 });
    await inOrder();
  });

  test('after a doubling of its tokens has no limit: no third answer is paid', async () => {
    const tools = ['core_memory_append'];
    await house.submit(tasks(150, { input: 'Say hello.', tools }));
    // In the same provider batch: no statistics limit its first answer, but those of 150 short answers would limit its second.
    const long = await house.submit([{ input: '⟦sim:maxTokensMidToolUse⟧', max_tokens: 8_192, tools }], {
      cap: dollars(1),
    });
    await house.drive(house.worker());
    const steps = await house.rows<{ most: number }>(
      `select coalesce(s.answer_limit, s.max_tokens) as most
         from step s join run r on r.id = s.run_id where r.batch_id = $1 order by s.attempt`,
      [long.id],
    );
    expect(steps.map(({ most }) => most)).toEqual([8_192, 16_384]);
    expect(await budgetOf(long.id)).toMatchObject({ overshoots: 0, cut_offs: 0 });
    await inOrder();
  });
});

describe('the tokens reserved for a prompt', () => {
  const OTHER: Partial<SubmittedRun> = { agent: { system: 'You keep columns of figures.' } };
  const BYTES = tasks(1)[0]?.input.length ?? 0;

  /** Reserves for a run, and takes it back. */
  async function tokensFor(worker: FlowDeps, run: Partial<SubmittedRun>): Promise<number> {
    const { id } = await house.submit(tasks(1, run), { cap: dollars(1) });
    await makeRuns(worker);
    await composeProviderBatch(worker);
    // Haiku 4.5: a dollar for a million tokens written to the cache for an hour, 2.5 for a million of its answer.
    const [step] = await house.rows<{ tokens: number }>(
      `select ((reserved_nanousd - reserved_output_tokens * 2500.0) / 1000)::float8 as tokens
         from step s join run r on r.id = s.run_id where r.batch_id = $1`,
      [id],
    );
    await house.cancel(id);
    await house.drive(worker);
    return step?.tokens ?? expect.fail('nothing is reserved');
  }

  test('follow ten samples of their definition; those of another with the same model do not count', async () => {
    const worker = house.worker();
    await house.submit(tasks(10));
    await house.drive(worker);
    expect(await tokensFor(worker, {})).toBeLessThan(BYTES / 2);
    expect(await tokensFor(worker, OTHER)).toBeGreaterThan(BYTES);
    await house.submit(tasks(9, OTHER));
    await house.drive(worker);
    expect(await tokensFor(worker, OTHER)).toBeGreaterThan(BYTES);
    await house.submit(tasks(1, OTHER));
    await house.drive(worker);
    expect(await tokensFor(worker, OTHER)).toBeLessThan(BYTES / 2);
    await inOrder();
  });

  test('are learnt from the largest requests of a provider batch and from the densest', async () => {
    const figures = 20;
    const batch = await house.submit(
      Array.from({ length: 40 }, (_, index) => ({
        input: index === figures ? '0123456789abcdef'.repeat(60) : 'words and words '.repeat(100 + index),
      })),
    );
    const worker = house.worker();
    await makeRuns(worker);
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    const [sent] = await house.rows<{ samples: readonly { readonly run_id: string }[] }>(
      'select token_samples as samples from provider_batch',
    );
    const sampled = sent?.samples.map(({ run_id }) => batch.run_ids.indexOf(run_id));
    expect(sampled?.sort((one, other) => one - other)).toEqual([figures, 31, 32, 33, 34, 35, 36, 37, 38, 39]);
  });
});

describe('an answer above its reservation', () => {
  test('is booked in full and counted, and lets no further request pass', async () => {
    const worker = house.worker({ settings: { requests_max: 10 } });
    await house.submit(tasks(20));
    await house.drive(worker);
    // The samples promise far more bytes a token than it takes.
    await house.rows('update prompt_density set bytes_per_token_min = 1000');
    const batch = await house.submit(tasks(200), { cap: dollars(0.03) });
    await house.drive(worker, { hasten: true });
    const budget = await budgetOf(batch.id);
    expect(budget?.overshoots).toBeGreaterThan(0);
    const billed = await house.rows<{ usd: number }>(
      `select (sum(cost_nanousd) / 1e9)::float8 as usd from step s join run r on r.id = s.run_id where r.batch_id = $1`,
      [batch.id],
    );
    expect(budget?.spent).toBeCloseTo(billed[0]?.usd ?? 0, 9);
    const [paused] = await house.rows('select state, state_reason from batch where id = $1', [batch.id]);
    expect(paused).toMatchObject({
      state: 'paused',
      state_reason: expect.stringContaining('max_cost_usd') as string,
    });
    expect((await house.runsOf(batch.id)).some(({ state }) => state === 'ready')).toBe(true);
    await inOrder();
  });
});
