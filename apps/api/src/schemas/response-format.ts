import { checkResultSchema } from '@nightshift/agent-core';
import { z } from 'zod';

/** The response format of a request in a batch. Its schema is checked later, once for all requests that share it. */
export const sharedResponseFormat = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('text') }).meta({ id: 'TextFormat' }),
    z.strictObject({ type: z.literal('json_object') }).meta({ id: 'JsonObjectFormat' }),
    z
      .strictObject({
        type: z.literal('json_schema'),
        json_schema: z.strictObject({
          name: z.string().max(64).nullish().describe("The caller's own name of the schema."),
          description: z.string().nullish().describe('Stored; ignored.'),
          strict: z.boolean().nullish().describe('Stored; results are always checked strictly.'),
          schema: z.record(z.string(), z.unknown()),
        }),
      })
      .meta({ id: 'JsonSchemaFormat' }),
  ])
  .meta({ id: 'ResponseFormat' });

/** A response format with a checked schema. */
export const responseFormat = sharedResponseFormat.superRefine((given, context) => {
  const message = given.type === 'json_schema' ? checkResultSchema(given.json_schema.schema) : null;
  if (message !== null) context.addIssue({ code: 'custom', message, path: ['json_schema', 'schema'] });
});
export type ResponseFormat = z.output<typeof responseFormat>;
