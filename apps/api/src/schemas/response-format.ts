import { checkResultSchema } from '@nightshift/agent-core';
import { z } from 'zod';

/** A response format of one request of many: its schema is yet to be checked, once for all that have it. */
export const sharedResponseFormat = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('text') }).meta({ id: 'TextFormat' }),
    z.strictObject({ type: z.literal('json_object') }).meta({ id: 'JsonObjectFormat' }),
    z
      .strictObject({
        type: z.literal('json_schema'),
        json_schema: z.strictObject({
          name: z.string().max(64).nullish().describe("The caller's own name for it."),
          description: z.string().nullish().describe('Kept; means nothing here.'),
          strict: z.boolean().nullish().describe('Kept; what does not fit is never taken.'),
          schema: z.record(z.string(), z.unknown()),
        }),
      })
      .meta({ id: 'JsonSchemaFormat' }),
  ])
  .meta({ id: 'ResponseFormat' });

/** A response format whose schema is usable. */
export const responseFormat = sharedResponseFormat.superRefine((given, context) => {
  const message = given.type === 'json_schema' ? checkResultSchema(given.json_schema.schema) : null;
  if (message !== null) context.addIssue({ code: 'custom', message, path: ['json_schema', 'schema'] });
});
export type ResponseFormat = z.output<typeof responseFormat>;
