import {
  NightshiftError,
  NO_USAGE,
  SHIPPED_PRICES,
  type StepBill,
  type StepOutcome,
} from '@nightshift/agent-core';
import type { Tx } from '@nightshift/db';
import { describe, expect, test } from 'vitest';
import type { CachedDefinition, DefinitionCache } from '@nightshift/intake';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { pricedOutcome, withPriceOf } from '../../src/flow-parts/results/price-outcome.ts';

const USAGE = { ...NO_USAGE, input_tokens: 1_000, output_tokens: 100 };
/** Haiku 4.5 in a batch: $0.50 per million tokens in, $2.50 out. */
const PRICE = 1_000 * 500 + 100 * 2_500;
const bill: StepBill = { stop_reason: null, usage: USAGE, cost_nanousd: null, message_id: null, model: null };
const missing = (cost_nanousd: number | null): StepOutcome => ({
  kind: 'missing',
  bill: { ...bill, cost_nanousd },
});
const ofModel = (model: string) => ({ definition: { model } }) as CachedDefinition;
const HAIKU = ofModel('anthropic/claude-haiku-4-5');

describe('the cost of a line without a known model', () => {
  test.each<[string, StepOutcome, CachedDefinition | undefined, StepOutcome]>([
    ['is priced by the model of its agent', missing(null), HAIKU, missing(PRICE)],
    ['stays unknown, not zero, if that has no price', missing(null), ofModel('x/y'), missing(null)],
    ['stays unknown if that names no model', missing(null), ofModel('no handle'), missing(null)],
    ['stays unknown without a definition', missing(null), undefined, missing(null)],
    ['stays as it was priced', missing(7), HAIKU, missing(7)],
    ['stays zero if it was free', missing(0), HAIKU, missing(0)],
    ['is zero if nothing was billed', { kind: 'expired' }, HAIKU, { kind: 'expired' }],
  ])('%s', (_what, outcome, cached, priced) => {
    expect(withPriceOf(outcome, cached, SHIPPED_PRICES)).toEqual(priced);
  });
});

describe('an outcome that is priced alone', () => {
  const price = (outcome: StepOutcome, get: DefinitionCache['get']) =>
    pricedOutcome(
      { definitions: { get }, settings: { prices: SHIPPED_PRICES } } as FlowDeps,
      null as unknown as Tx,
      { definition_id: 'd' },
      outcome,
    );
  const found: DefinitionCache['get'] = (_db, ids) => Promise.resolve(new Map(ids.map((id) => [id, HAIKU])));
  const failing =
    (error: Error): DefinitionCache['get'] =>
    () =>
      Promise.reject(error);

  const away = Object.assign(new Error('the database is away'), { code: '57P01' });

  test('has the price of its own definition', async () => {
    expect(await price(missing(null), found)).toEqual(missing(PRICE));
  });

  test.each([missing(7), missing(0), { kind: 'expired' } as const])(
    'needs no definition if its price is known: %o',
    async (outcome) => {
      expect(await price(outcome, failing(away))).toBe(outcome);
    },
  );

  test('is booked without a price if its definition cannot be read', async () => {
    const poison = new NightshiftError('bad_configuration', 'rules that do not parse');
    expect(await price(missing(null), failing(poison))).toEqual(missing(null));
  });

  test('waits while the database is away: an existing price must not be missed', async () => {
    await expect(price(missing(null), failing(away))).rejects.toBe(away);
  });
});
