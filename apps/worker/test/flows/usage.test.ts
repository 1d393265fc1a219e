import type {} from '../../../../test/global-setup.ts';
import {
  DEFAULT_PROJECT_ID,
  forgetBatch,
  inTransaction,
  readLastDays,
  readUsage,
  type UsageGrouping,
  type UsageRow,
} from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { cancelBatch } from '../../src/flows/cancel-batch/cancel-batch.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { finishBatch } from '../../src/flows/finish-batch/finish-batch.ts';
import { forgetBatches } from '../../src/flows/forget-batches/forget-batches.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { FlowDeps, Hooks } from '../../src/flow-parts/deps.ts';
import { openHouse, script, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const usageBy = async (grouping: UsageGrouping): Promise<readonly UsageRow[]> =>
  readUsage(house.database.db, DEFAULT_PROJECT_ID, await readLastDays(house.database.db, 40), grouping);
const all = () => Promise.all((['day', 'model', 'tag', 'schedule'] as const).map(usageBy));

/** Reads the sums of all counts of batches. */
async function tallies() {
  const [row] = await house.rows<Record<string, string>>(
    `select sum(completed) as completed, sum(failed + expired) as failed, sum(steps) as steps, sum(input_tokens) as input_tokens,
            sum(output_tokens) as output_tokens, sum(cost_nanousd) as cost_nanousd from batch_tally`,
  );
  return Object.fromEntries(Object.entries(row ?? {}).map(([name, value]) => [name, Number(value)]));
}

/** Sends one provider batch and looks until its answers are applied: the provider may still be at work at the first look. */
async function applyAnswers(worker: FlowDeps): Promise<void> {
  for (const flow of [composeProviderBatch, submitProviderBatch]) await flow(worker);
  while ((await house.rows('select from step where applied_at is not null')).length === 0)
    for (const flow of [pollProviderBatches, ingestResults]) await flow(worker);
}

const TWO_STEPS = script({ tool: 'unknown_tool' }, { text: 'Done.' });

test('is the same while a batch runs, after its end and after it was forgotten', async () => {
  const worker = house.worker();
  const opus = 'anthropic/claude-opus-5-5';
  const first = await house.submit([
    { input: TWO_STEPS },
    { input: 'Hello.', model: opus },
    { input: 'No. ⟦sim:refusal⟧' },
  ]);
  await house.rows(`update batch set tags = '{b,a,b}' where id = $1`, [first.id]);
  await applyAnswers(worker);
  expect((await usageBy('day'))[0]).toMatchObject(await tallies());
  await house.drive(worker);
  const second = await house.submit([{ input: 'Hello.' }]);
  await house.drive(worker);
  const sums = await tallies();
  const before = await all();
  const [byDay = [], byModel = [], byTag = [], bySchedule = []] = before;
  expect(byDay).toMatchObject([sums]);
  expect(byModel.map(({ key, completed }) => [key, completed])).toEqual([
    ['anthropic/claude-haiku-4-5', 2],
    [opus, 1],
  ]);
  expect(byTag.map(({ key, steps }) => [key, steps])).toEqual([
    ['a', sums['steps']! - 1],
    ['b', sums['steps']! - 1],
    [null, 1],
  ]);
  expect(bySchedule).toMatchObject([{ key: null, ...sums }]);
  for (const { id } of [first, second])
    await inTransaction(house.database.db, (trx) => forgetBatch(trx, DEFAULT_PROJECT_ID, id));
  expect(await all()).toEqual(before);
  while ((await forgetBatches(worker)).worked);
  expect(await house.rows('select 1 from step')).toEqual([]);
  expect(await all()).toEqual(before);
});

test.each(['ends', 'is cancelled'])(
  'is booked in portions, each once, before a big batch %s',
  async (how) => {
    const RUNS = 7;
    const batch = await house.submit(
      Array.from({ length: RUNS }, (_, index) => ({ input: `Hello ${index}.` })),
    );
    const worker = house.worker();
    await applyAnswers(worker);
    if (how === 'is cancelled') await house.cancel(batch.id);
    const before = await all();
    const booked = async () =>
      (await house.rows<Record<string, number>>('select state, usage_booked from batch'))[0]?.[
        'usage_booked'
      ];
    expect(before[0]).toMatchObject([await tallies()]);
    // Killed at the third portion: two are booked, and reads count them once.
    if (how === 'ends') {
      let portions = 0;
      const hooks: Hooks = (point) => {
        if (point !== 'finish.before_commit' || ++portions < 3) return;
        dying.leases.close();
        throw new Error('killed');
      };
      const dying: FlowDeps = house.worker({ hooks });
      await expect(finishBatch(dying, 500, 2)).rejects.toThrow('killed');
      await house.bury(dying);
      await house.hasten();
      expect(await booked()).toBe(4);
      expect(await house.rows('select sum(completed)::int as completed from usage_day')).toEqual([
        { completed: 4 },
      ]);
      expect(await all()).toEqual(before);
      expect(await finishBatch(house.worker(), 500, 2)).toMatchObject({ state: 'completed' });
    } else {
      expect(await cancelBatch(worker, 2)).toMatchObject({ state: 'cancelled' });
    }
    expect(await booked()).toBe(6);
    expect(await all()).toEqual(before);
    expect(await house.rows('select sum(completed)::int as completed from usage_day')).toEqual([
      { completed: RUNS },
    ]);
  },
);

test('counts each step on the day of its answer and each run on the day of its end', async () => {
  const worker = house.worker();
  const batch = await house.submit([{ input: TWO_STEPS }]);
  await applyAnswers(worker);
  await house.rows(
    `update step set sealed_at = sealed_at - interval '1 day', applied_at = applied_at - interval '1 day'`,
  );
  await house.drive(worker);
  const days = await usageBy('day');
  expect(days.map(({ steps, completed }) => ({ steps, completed }))).toEqual([
    { steps: 1, completed: 0 },
    { steps: 1, completed: 1 },
  ]);
  const today = await readLastDays(house.database.db, 1);
  expect(await readUsage(house.database.db, DEFAULT_PROJECT_ID, today, 'day')).toEqual(days.slice(1));
  expect(batch.run_ids).toHaveLength(1);
});
