import {
  batchCostNanoUsd,
  billOfOutcome,
  parseModelHandle,
  withBill,
  type PriceTable,
  type StepOutcome,
} from '@nightshift/agent-core';
import { judgeError, type RunToDecide, type Tx } from '@nightshift/db';
import type { CachedDefinition } from '@nightshift/intake';
import type { FlowDeps } from '../deps.ts';

/** Prices a bill by the definition's model if the model of the line has no price. */
export function withPriceOf(
  outcome: StepOutcome,
  cached: CachedDefinition | undefined,
  prices: PriceTable,
): StepOutcome {
  const bill = billOfOutcome(outcome);
  if (bill?.cost_nanousd !== null || cached === undefined) return outcome;
  const name = parseModelHandle(cached.definition.model)?.name ?? '';
  return withBill(outcome, { ...bill, cost_nanousd: batchCostNanoUsd(prices, name, bill.usage) });
}

/** Prices a single outcome. Reads the definition only if the price is missing: the definition may be the poison. */
export async function pricedOutcome(
  { definitions, settings }: FlowDeps,
  trx: Tx,
  { definition_id }: Pick<RunToDecide, 'definition_id'>,
  outcome: StepOutcome,
): Promise<StepOutcome> {
  const bill = billOfOutcome(outcome);
  if (bill?.cost_nanousd !== null) return outcome;
  const found = await definitions.get(trx, [definition_id]).catch((error: unknown) => {
    if (judgeError(error) !== 'poison') throw error;
    return null;
  });
  return withPriceOf(outcome, found?.get(definition_id), settings.prices);
}
