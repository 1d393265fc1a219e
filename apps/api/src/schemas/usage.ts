import { z } from 'zod';

/** An amount in US dollars as an exact decimal. */
export const usd = z.string();

/** Steps, calls, tokens and money of a run, or of all runs of a batch. */
export const usage = z
  .object({
    steps: z.int().describe('Applied answers.'),
    tool_calls: z.int(),
    failed_tool_calls: z.int().describe('Calls that ended in an error or were interrupted.'),
    unknown_tool_calls: z
      .int()
      .describe('Of the failed calls: those that were interrupted and may have taken effect.'),
    input_tokens: z.int().describe('Tokens read without a cache.'),
    output_tokens: z.int(),
    cache_write_tokens: z.int(),
    cache_read_tokens: z.int(),
    cost_usd: usd.nullable().describe('Exact decimal; null if a model has no price.'),
  })
  .meta({ id: 'Usage' });
