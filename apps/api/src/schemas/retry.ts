import { z } from 'zod';
import { batchInput } from './batch.ts';
import { retryChoice } from './failure.ts';

const OPTIONS = {
  callback_url: true,
  callback_events: true,
  deadline: true,
  metadata: true,
  apply: true,
  hold_if: true,
  max_cost_usd: true,
  max_output_tokens: true,
  pilot: true,
  expires_in_days: true,
  name: true,
  tags: true,
  stop_when: true,
} as const;

/** The body of a retry: the choice of runs, and options in place of those of their batch. */
export const retryInput = z
  .strictObject({
    ...retryChoice,
    definitions: z
      .enum(['same', 'current'])
      .nullish()
      .describe(
        '`same` (default): each run has the definition of its failed run. `current`: agents as they are now, with the client ' +
          'tools of the failed run, and its response format unless the agent has one.',
      ),
    ...z.strictObject(batchInput.shape).pick(OPTIONS).shape,
  })
  .meta({ id: 'BatchRetry', examples: [{ states: ['failed'], ended_reasons: ['provider_error'] }] });
