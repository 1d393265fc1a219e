import { checkResultSchema } from '@nightshift/agent-core';
import { z } from 'zod';

/** Letta's forms of a response format, with a schema of this kind. */
function formatsWith(schema: z.ZodRecord<z.ZodString, z.ZodUnknown>) {
  return z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('text') }),
    z.strictObject({ type: z.literal('json_object') }),
    z.strictObject({
      type: z.literal('json_schema'),
      json_schema: z.strictObject({
        name: z.string().max(64).nullish().describe("The caller's own name for it."),
        description: z.string().nullish().describe('Kept; means nothing here.'),
        strict: z.boolean().nullish().describe('Kept; what does not fit is never taken.'),
        schema,
      }),
    }),
  ]);
}

const schema = z.record(z.string(), z.unknown());

/** A response format whose schema is usable. */
export const responseFormat = formatsWith(
  schema.superRefine((given, context) => {
    const message = checkResultSchema(given);
    if (message !== null) context.addIssue({ code: 'custom', message });
  }),
);
/** A response format of one request of many: its schema is yet to be checked, once for all that have it. */
export const sharedResponseFormat = formatsWith(schema);
export type ResponseFormat = z.output<typeof responseFormat>;
