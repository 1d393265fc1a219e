import type { PriceTable } from '@nightshift/agent-core';
import type { OutputMaxima } from '@nightshift/db';

/** Returns the output maxima of models by the price table. */
export function outputMaxima({ models }: PriceTable): OutputMaxima {
  return [...models].map(([model, { output_tokens_max }]) => ({ model, output_tokens_max }));
}
