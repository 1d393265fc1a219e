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
    requests: range.describe('Steps that are sent.'),
    request_bytes: z.int().describe('Bytes of the first requests, as agents and conversations stand now.'),
    input_tokens: range,
    output_tokens: range,
    cost_usd: usdRange.nullable().describe('Exact decimals; null where a model has no price.'),
    unpriced_models: z.array(z.string()),
    price_table: z.string(),
    verdict: z
      .enum(['fits', 'may_pause', 'will_pause', 'cannot_start', 'unknown'])
      .nullable()
      .describe(
        'Against the caps of the body: `fits` even if the worst comes, answers aside that are of no use, paid and asked for ' +
          'again; `may_pause` if the worst comes; `will_pause` if the expected does; `cannot_start` without room for any first request, also for the caps of the runs; `unknown` without a price; ' +
          'null without a cap of the batch.',
      ),
  })
  .meta({ id: 'BatchEstimate' });

/** Says what a batch would come to. Nothing is stored, nothing is sent. */
export function estimateBatch(app: App, context: Context, path: string, hide: boolean): void {
  app.post(
    `${path}/estimate`,
    {
      bodyLimit: BATCH_BYTES_MAX,
      schema: {
        operationId: 'estimateBatch',
        summary: 'Estimate a batch',
        description:
          'Takes the body of a submission and says what it would come to: `low` is one short answer a run, `expected` goes by ' +
          'the earlier runs of the agents, `worst` is every step filled to its last token, which is what caps are kept by.',
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
