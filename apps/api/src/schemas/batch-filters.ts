import { BATCH_STATES } from '@nightshift/agent-core';
import { z } from 'zod';
import { wireId } from './ids.ts';
import { moment } from './moment.ts';
import { storedName } from './text.ts';

/** A JSON object in a query parameter. */
const jsonObject = z.string().transform((text, context) => {
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(text));
  } catch {
    context.addIssue({ code: 'custom', message: 'must be a JSON object, such as {"team":"sales"}' });
    return z.NEVER;
  }
});

/** The filters of the list of batches. Beyond Letta. */
export const batchFilters = {
  state: z.enum(BATCH_STATES).optional().describe('Batches in this state. Beyond Letta.'),
  tag: storedName(100).optional().describe('Batches with this tag. Beyond Letta.'),
  name: storedName(200)
    .optional()
    .describe('Batches with this part of their name, in any case; at least three characters. Beyond Letta.'),
  schedule_id: wireId('schedule').optional().describe('Batches of this schedule alone.'),
  retry_of: wireId('job').optional().describe('Batches that try runs of this batch again. Beyond Letta.'),
  metadata: jsonObject
    .optional()
    .describe(
      'JSON object with one property: batches with this string, number, boolean or null at the top level of their ' +
        'metadata. The first 64 of them are found. Beyond Letta.',
    ),
  created_after: moment.optional().describe('Batches created after this time. Beyond Letta.'),
  created_before: moment.optional().describe('Batches created before this time. Beyond Letta.'),
};
