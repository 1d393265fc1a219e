import { listOf, type ModelPrice } from '@nightshift/agent-core';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { QUERY_LIST_MAX } from '../../query.ts';
import { problems } from '../../schemas/answers.ts';

const model = z
  .object({
    name: z.string(),
    display_name: z.string(),
    handle: z.string(),
    model: z.string(),
    model_type: z.literal('llm'),
    provider_name: z.string(),
    provider_type: z.string(),
    provider_category: z.string(),
    model_endpoint_type: z.string(),
    model_endpoint: z.string(),
    context_window: z.int(),
    max_context_window: z.int(),
    max_output_tokens: z.int().describe('Most tokens of an answer. Beyond Letta.'),
    answered_by: z.enum(['simulator', 'anthropic']).describe('The provider of the answers. Beyond Letta.'),
    price_table: z.string().describe('Version of the price table. Beyond Letta.'),
  })
  .meta({
    id: 'Model',
    examples: [
      {
        name: 'claude-haiku-4-5',
        display_name: 'claude-haiku-4-5',
        handle: 'anthropic/claude-haiku-4-5',
        model: 'claude-haiku-4-5',
        model_type: 'llm',
        provider_name: 'anthropic',
        provider_type: 'anthropic',
        provider_category: 'base',
        model_endpoint_type: 'anthropic',
        model_endpoint: 'https://api.anthropic.com/v1',
        context_window: 200_000,
        max_context_window: 200_000,
        max_output_tokens: 64_000,
        answered_by: 'simulator',
        price_table: '2026-11-22',
      },
    ],
  });

const modelsQuery = z.strictObject({
  provider_category: listOf(z.enum(['base', 'byok']), QUERY_LIST_MAX).optional(),
  provider_name: z.string().optional(),
  provider_type: z.string().optional(),
});

/** Lists every model with a price; the cost of other models is unknown. */
export function listModels(app: App, context: Context): void {
  app.get(
    '/v1/models',
    {
      schema: {
        operationId: 'listModels',
        summary: 'List the models for agents',
        tags: ['models'],
        querystring: modelsQuery,
        response: { 200: z.array(model), ...problems },
      },
    },
    async (request) => {
      const { provider_category, provider_name, provider_type } = request.query;
      const isListed =
        (provider_category?.includes('base') ?? true) &&
        (provider_name ?? 'anthropic') === 'anthropic' &&
        (provider_type ?? 'anthropic') === 'anthropic';
      return isListed ? [...context.prices.models].map(([name, price]) => toModel(name, price, context)) : [];
    },
  );
}

function toModel(name: string, price: ModelPrice, context: Context): z.output<typeof model> {
  return {
    name,
    display_name: name,
    handle: `anthropic/${name}`,
    model: name,
    model_type: 'llm',
    provider_name: 'anthropic',
    provider_type: 'anthropic',
    provider_category: 'base',
    model_endpoint_type: 'anthropic',
    model_endpoint: 'https://api.anthropic.com/v1',
    context_window: price.context_window,
    max_context_window: price.context_window,
    max_output_tokens: price.output_tokens_max,
    answered_by: context.model,
    price_table: context.prices.version,
  };
}

/** Lists no models: Nightshift does not embed. */
export function listEmbeddingModels(app: App): void {
  app.get(
    '/v1/models/embedding',
    {
      schema: {
        operationId: 'listEmbeddingModels',
        summary: 'List embedding models: always empty',
        tags: ['models'],
        querystring: z.strictObject({}),
        response: { 200: z.array(z.unknown()).meta({ examples: [[]] }), ...problems },
      },
    },
    async () => [],
  );
}
