import { estimateBatch as estimate, toUsd } from '@nightshift/agent-core';
import { readNow } from '@nightshift/db';
import { BATCH_BYTES_MAX, refusePassedDeadlines, requestedRuns, toCap, toError } from '@nightshift/intake';
import { z } from 'zod';
import { holdMore } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { batchInput } from '../../schemas/batch.ts';
import { measureRuns } from './measure-runs.ts';

const range = z.object({ low: z.int(), expected: z.int(), worst: z.int() }).meta({ id: 'EstimateRange' });
const usdRange = z
  .object({ low: z.string(), expected: z.string(), worst: z.string() })
  .meta({ id: 'EstimateUsdRange' });

const batchEstimate = z
  .object({
    runs: z.int(),
    requests: range.describe('Steps to be sent.'),
    request_bytes: z
      .int()
      .describe('Bytes of the first requests, with the present agents and conversations.'),
    input_tokens: range,
    output_tokens: range,
    cost_usd: usdRange.nullable().describe('Exact decimals; null if a model has no price.'),
    unpriced_models: z.array(z.string()),
    price_table: z.string(),
    verdict: z
      .enum(['fits', 'may_pause', 'will_pause', 'cannot_start', 'unknown'])
      .nullable()
      .describe(
        'Compares the estimate with the caps of the body. `fits`: the worst case fits, except for unusable answers that ' +
          'are paid and requested again. `may_pause`: the worst case exceeds a cap. `will_pause`: the expected case does. ' +
          '`cannot_start`: no first request fits, under the batch or run caps. `unknown`: a model has no price. Null: the ' +
          'batch has no cap.',
      ),
  })
  .meta({ id: 'BatchEstimate' });

/** Estimates the tokens and cost of a batch. Stores and sends nothing. */
export function estimateBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/estimate`,
    {
      bodyLimit: BATCH_BYTES_MAX,
      schema: {
        operationId: 'estimateBatch',
        summary: 'Estimate a batch',
        description:
          'Takes the body of a submission and estimates its tokens and cost. `low`: one short answer per run. ' +
          '`expected`: based on earlier runs of the agents. `worst`: every step uses all its tokens; caps reserve this ' +
          'amount.',
        tags: ['batches'],
        hide,
        body: batchInput,
        response: { 200: batchEstimate, ...problems },
      },
    },
    async (request) => {
      const { body } = request;
      const runs = await requestedRuns(body, (bytes) => holdMore(request, bytes));
      const batch = {
        deadline: body.deadline ?? null,
        runs,
        shared_path: body.template == null ? null : '/template',
      };
      const passed = refusePassedDeadlines(batch, await readNow(context.db));
      if (passed !== null) throw toError(passed);
      const groups = await measureRuns(context, batch);
      const { cost_nanousd, ...rest } = estimate(context.prices, groups, toCap(body));
      return {
        runs: runs.length,
        ...rest,
        unpriced_models: [...rest.unpriced_models],
        cost_usd:
          cost_nanousd === null
            ? null
            : {
                low: toUsd(cost_nanousd.low),
                expected: toUsd(cost_nanousd.expected),
                worst: toUsd(cost_nanousd.worst),
              },
        price_table: context.prices.version,
      };
    },
  );
}
