import { z } from 'zod';
import { batchInput, refineOptions } from './batch.ts';

/** The batch of an upload: a JSON body without its requests, and without the fields of a fleet. */
const uploadBatch = z
  .strictObject(batchInput.shape)
  .omit({
    ...{ requests: true, inputs: true, agents: true, kind: true, input: true, cursor: true, model: true },
    ...{ conversation: true, client_tools: true, response_format: true, max_steps: true, allow_empty: true },
    ...{ max_cost_usd_per_run: true, max_output_tokens_per_run: true, blocks: true, instruction: true },
    ...{ prompt: true, create_blocks: true, parts_max: true },
  })
  .superRefine((batch, context) =>
    refineOptions(batch, (field, message) => context.addIssue({ code: 'custom', path: [field], message })),
  )
  .meta({ id: 'UploadBatch' });

/** The optional first line of an upload. */
export const uploadFirstLine = z
  .strictObject({
    batch: uploadBatch.describe(
      'All that a JSON body has beside its requests. With a `template`, each line is an input.',
    ),
  })
  .meta({ id: 'UploadFirstLine', examples: [{ batch: { name: 'tickets', max_cost_usd: 25 } }] });
