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
    ...estimate.server_tools.map((tool) => [tool.name, chargeOf(tool)] as const),
    ...(verdict === null ? [] : [['cap', VERDICTS[verdict]] as const]),
    ...(estimate.rounds === null
      ? []
      : [['rounds', countOfNoun(estimate.rounds, 'provider batch').replace(/batchs$/, 'batches')] as const]),
  ]);
}

/** Tells what a server tool costs beside tokens. */
function chargeOf({
  uses_per_step: uses,
  is_assumed,
  cost_usd_per_step: cost,
}: BatchEstimate['server_tools'][number]): string {
  if (cost === null) return 'container time, which is not estimated';
  if (uses === null) return 'tokens alone';
  return `at most ${countOf(uses)} uses a step${is_assumed ? ' (assumed: max_uses is absent)' : ''}, ${dollarsOf(cost)}`;
}

function rangeOf({ low, expected, worst }: BatchEstimate['requests']): string {
  return `${countOf(expected)} expected, ${countOf(low)} to ${countOf(worst)}`;
}
