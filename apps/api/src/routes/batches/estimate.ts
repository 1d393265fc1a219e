import { estimateBatch as estimate, toUsd } from '@nightshift/agent-core';
import { readNow } from '@nightshift/db';
import {
  BATCH_BYTES_MAX,
  measureRuns,
  prepareBatch,
  refusePassedDeadlines,
  toCap,
  toError,
  type BatchRequest,
  type PreparedRuns,
} from '@nightshift/intake';
import { z } from 'zod';
import { holdMore } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { batchInput, toBatchRequest } from '../../schemas/batch.ts';
import { shownId } from '../../schemas/ids.ts';
import { usd } from '../../schemas/usage.ts';
import { measureFleet, type MeasuredRuns } from './measure-fleet.ts';
import { ESTIMATE } from '../../schemas/examples/batches.ts';

const range = z.object({ low: z.int(), expected: z.int(), worst: z.int() }).meta({ id: 'EstimateRange' });
const usdRange = z
  .object({ low: z.string(), expected: z.string(), worst: z.string() })
  .meta({ id: 'EstimateUsdRange' });

const batchEstimate = z
  .object({
    runs: z.int(),
    fleet: z
      .object({
        agents: z.int().describe('Selected agents, skipped agents included.'),
        first_agent_ids: z.array(shownId('agent')).describe('The first ten.'),
        skipped: z.record(z.string(), z.int()).describe('Agents without a run by reason.'),
        measured_agents: z
          .int()
          .describe('Agents whose requests were measured; the figures of a larger fleet are scaled.'),
      })
      .meta({ id: 'FleetEstimate' })
      .nullable()
      .describe('Null for a batch that is not a fleet.'),
    requests: range.describe('Steps to be sent.'),
    request_bytes: z
      .int()
      .describe('Bytes of the first requests, with the present agents and conversations.'),
    input_tokens: range,
    output_tokens: range,
    cached_tokens: z
      .object({ read: z.int(), written: z.int() })
      .meta({ id: 'EstimateCachedTokens' })
      .describe('Expected input tokens read from the provider’s cache, and written to it.'),
    cost_usd: usdRange.nullable().describe('Exact decimals; null if a model has no price.'),
    realtime_cost_usd: z
      .object({ uncached: z.string(), cached: z.string() })
      .meta({ id: 'EstimateRealtimeUsd' })
      .nullable()
      .describe(
        'The expected work at the realtime price: without a cache, and in a loop in which each step reads the prompt of the ' +
          'step before from the cache.',
      ),
    rounds: z
      .int()
      .nullable()
      .describe(
        'Provider batches in sequence that the caps of the body allow for the expected work. Null without a cap, without a ' +
          'price, or if a cap stops the work before its end.',
      ),
    smallest_cap: z
      .object({ max_cost_usd: z.string().nullable(), max_output_tokens: z.int() })
      .meta({ id: 'EstimateSmallestCap' })
      .describe('The expected work with room for its largest request.'),
    unpriced_models: z.array(z.string()),
    server_tools: z
      .array(
        z
          .object({
            type: z.string(),
            name: z.string(),
            uses_per_step: z
              .int()
              .nullable()
              .describe('Most uses with a price in a step; null for a tool without one.'),
            is_assumed: z
              .boolean()
              .describe('Whether `uses_per_step` is assumed, because `max_uses` is absent.'),
            cost_usd_per_step: usd
              .nullable()
              .describe(
                'Most cost of its uses in a step, beside tokens. Null: container time, which is not estimated.',
              ),
          })
          .meta({ id: 'EstimateServerTool' }),
      )
      .describe(
        'Server tools of the runs. `expected` counts with a search a step, `worst` and caps with `uses_per_step`.',
      ),
    price_table: z.string(),
    verdict: z
      .enum(['fits', 'may_pause', 'will_pause', 'cannot_start', 'unknown'])
      .nullable()
      .describe(
        'Compares the estimate with the caps of the body. `fits`: the worst case fits, except for unusable answers that ' +
          'are paid and requested again, and for tool results of more than 2,000 tokens a step, or more than twice the ' +
          'growth of earlier prompts. `may_pause`: the worst case exceeds a cap. `will_pause`: the expected case does. ' +
          '`cannot_start`: no first request of the measured runs fits, under the batch or run caps. `unknown`: a model has no price. Null: the ' +
          'batch has no cap.',
      ),
  })
  .meta({ id: 'BatchEstimate', examples: [ESTIMATE] });

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
          '`expected`: based on the answers to the same definition, or to the same model and kind of work, or on a rule of ' +
          'thumb. `worst`: every run takes all its steps, with answers as long as the longest in a hundred, or of ' +
          '`max_output_tokens` without earlier answers.',
        tags: ['batches'],
        hide,
        body: batchInput,
        response: { 200: batchEstimate, ...problems },
      },
    },
    async (request) => {
      const body = toBatchRequest(request.body);
      const prepared = await prepareBatch(body, (bytes) => holdMore(request, bytes));
      const measured =
        'source' in prepared
          ? await measureFleet(context, body, prepared)
          : await measureRequests(context, body, prepared);
      const { groups, runs, fleet } = measured;
      const { cost_nanousd, realtime_nanousd, least_cap, ...rest } = estimate(
        context.prices,
        groups,
        toCap(body),
      );
      return {
        runs,
        fleet,
        ...rest,
        unpriced_models: [...rest.unpriced_models],
        server_tools: rest.server_tools.map(({ nanousd_per_step, ...tool }) => ({
          ...tool,
          cost_usd_per_step: toUsd(nanousd_per_step),
        })),
        cost_usd:
          cost_nanousd === null
            ? null
            : {
                low: toUsd(cost_nanousd.low),
                expected: toUsd(cost_nanousd.expected),
                worst: toUsd(cost_nanousd.worst),
              },
        realtime_cost_usd:
          realtime_nanousd === null
            ? null
            : { uncached: toUsd(realtime_nanousd.uncached), cached: toUsd(realtime_nanousd.cached) },
        smallest_cap: {
          max_cost_usd: toUsd(least_cap.cost_nanousd),
          max_output_tokens: least_cap.output_tokens,
        },
        price_table: context.prices.version,
      };
    },
  );
}

/** Measures requests, or the inputs of a template. Throws: as accepting them would. */
async function measureRequests(
  context: Context,
  { deadline }: BatchRequest,
  { runs, tools, shared_path }: PreparedRuns,
): Promise<MeasuredRuns> {
  const batch = { deadline: deadline ?? null, runs, tools, shared_path };
  const passed = refusePassedDeadlines(batch, await readNow(context.db));
  if (passed !== null) throw toError(passed);
  return { groups: await measureRuns(context, batch), runs: runs.length, fleet: null };
}
