import { modelPrice, NightshiftError, parseModelHandle, type PriceTable } from '@nightshift/agent-core';

/**
 * Refuses a cap in dollars on a model without a price: it could not be kept. Throws `validation_failed` that names the
 * field.
 */
export function assertPriced(path: string, handle: string, prices: PriceTable): void {
  if (modelPrice(prices, parseModelHandle(handle)?.name ?? handle) !== null) return;
  const message = `cannot be kept: the model ${handle} has no price in the price table`;
  throw new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
}
