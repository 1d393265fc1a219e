import { checkResultSchema } from '@nightshift/agent-core';
import { z } from 'zod';

/** Letta's forms of a response format. */
export const responseFormat = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    json_schema: z.strictObject({
      name: z.string().max(64).nullish().describe("The caller's own name for it."),
      description: z.string().nullish().describe('Kept; means nothing here.'),
      strict: z.boolean().nullish().describe('Kept; what does not fit is never taken.'),
      schema: z.record(z.string(), z.unknown()).superRefine((schema, context) => {
        const message = checkResultSchema(schema);
        if (message !== null) context.addIssue({ code: 'custom', message });
      }),
    }),
  }),
]);
export type ResponseFormat = z.output<typeof responseFormat>;
