import type { PriceTable } from '@nightshift/agent-core';
import type { OutputMaxima } from '@nightshift/db';

/** What models write at most, by the price table. */
export function outputMaxima({ models }: PriceTable): OutputMaxima {
  return [...models].map(([model, { output_tokens_max }]) => ({ model, output_tokens_max }));
}
