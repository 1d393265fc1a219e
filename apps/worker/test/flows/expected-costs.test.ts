import type {} from '../../../../test/global-setup.ts';
import { SHIPPED_PRICES, type PriceTable } from '@nightshift/agent-core';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

const expectations = (): Promise<{ is_estimated: boolean; is_expected: boolean }[]> =>
  house.rows(
    'select is_estimated, expected_nanousd is not null as is_expected from batch order by created_at, id',
  );
const ESTIMATED = { is_estimated: true, is_expected: true };
const GIVEN_UP = { is_estimated: true, is_expected: false };

test('a batch that cannot be estimated is tried once, is on the report, and leaves the others their estimates', async () => {
  const model = SHIPPED_PRICES.models.get('claude-haiku-4-5') ?? expect.fail('no price');
  const prices: PriceTable = {
    ...SHIPPED_PRICES,
    models: new Map([...SHIPPED_PRICES.models, ['claude-haiku-4-5', { ...model, input: NaN }]]),
  };
  await house.submit([{ input: 'Without an end.' }]);
  await house.submit([{ input: 'As usual.', model: 'anthropic/claude-sonnet-4-5' }]);
  const report = await composeProviderBatch(house.worker({ settings: { prices } }));
  expect(await expectations()).toEqual([GIVEN_UP, ESTIMATED]);
  expect(report).toMatchObject({
    worked: true,
    requests: 2,
    unestimated: 1,
    estimate_error: expect.stringContaining('NaN') as string,
  });
});

test('each batch of a large backlog is estimated before its first request', async () => {
  const count = 60;
  for (let index = 0; index < count; index++) await house.submit([{ input: `Number ${index}.` }]);
  const report = await composeProviderBatch(house.worker());
  expect(report).toMatchObject({ worked: true, requests: count });
  expect(report).not.toHaveProperty('unestimated');
  expect(await expectations()).toEqual(Array.from({ length: count }, () => ESTIMATED));
});

test('a batch with a sent request is not estimated afterwards', async () => {
  await house.submit([{ input: 'first' }]);
  await composeProviderBatch(house.worker());
  await house.rows('update batch set is_estimated = false, expected_nanousd = null');
  await house.submit([{ input: 'second' }]);
  await composeProviderBatch(house.worker());
  expect(await expectations()).toEqual([GIVEN_UP, ESTIMATED]);
});
