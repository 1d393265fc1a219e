import type { BatchEstimate } from '@nightshift/client';
import { renderFields } from './fields.ts';
import { countOf, countOfNoun, dollarsOf } from './words.ts';

const VERDICTS: Readonly<Record<NonNullable<BatchEstimate['verdict']>, string>> = {
  fits: 'the worst case fits the cap',
  may_pause: 'the worst case exceeds the cap, where the batch pauses',
  will_pause: 'the expected cost exceeds the cap, where the batch pauses: raise the cap',
  cannot_start: 'no request fits the cap: raise it',
  unknown: 'a model has no price',
};

/** Renders an estimate for a person. */
export function renderEstimate(estimate: BatchEstimate): string {
  const { cost_usd: cost, requests, input_tokens: input, output_tokens: output, verdict } = estimate;
  return renderFields([
    ['runs', countOf(estimate.runs)],
    ...(estimate.fleet === null ? [] : [['agents', countOf(estimate.fleet.agents)] as const]),
    ['steps', rangeOf(requests)],
    ['input tokens', rangeOf(input)],
    ['output tokens', rangeOf(output)],
    [
      'cost',
      cost === null
        ? `unknown: no price for ${estimate.unpriced_models.join(', ')}`
        : `${dollarsOf(cost.expected)} expected, ${dollarsOf(cost.low)} to ${dollarsOf(cost.worst)}`,
    ],
    ...(verdict === null ? [] : [['cap', VERDICTS[verdict]] as const]),
    ...(estimate.rounds === null
      ? []
      : [['rounds', countOfNoun(estimate.rounds, 'provider batch').replace(/batchs$/, 'batches')] as const]),
  ]);
}

function rangeOf({ low, expected, worst }: BatchEstimate['requests']): string {
  return `${countOf(expected)} expected, ${countOf(low)} to ${countOf(worst)}`;
}
