import { z } from 'zod';
import { shownId, wireId } from './ids.ts';
import { moment, shownTime } from './moment.ts';
import { CURSOR } from './examples/agents.ts';

/** Name of a cursor. */
export const cursorName = z
  .string()
  .regex(/^[a-zA-Z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, hyphens or underscores');

export const cursor = z
  .object({
    name: z.string(),
    position: z
      .int()
      .describe(
        "Number of the last message that is not new, in the agent's conversation; 0 before the first.",
      ),
    last_message_id: shownId('message').nullable().describe('That message.'),
    last_message_date: shownTime.nullable().describe('When that message was said.'),
    new_messages: z.int().describe('New messages; a minimum if `has_more`.'),
    has_more: z.boolean().describe('Whether more messages follow the counted ones.'),
    skip_reason: z
      .enum(['nothing_new', 'under_way', 'in_review', 'failing'])
      .nullable()
      .describe(
        'Why a batch accepted now would skip the agent: nothing is new; a run under the cursor is open; its changes are ' +
          'held for review; or three runs from this place failed, and nothing new arrived since. Null: it would not.',
      ),
    last_run_id: shownId('run').nullable().describe('The last run under the cursor.'),
    last_job_id: shownId('job').nullable().describe('Its batch.'),
    rewound_at: shownTime.nullable().describe('Time of the last rewind.'),
  })
  .meta({ id: 'Cursor', examples: [CURSOR] });
export type Cursor = z.output<typeof cursor>;

/** Where a rewind moves a cursor. */
export const rewindTarget = z
  .strictObject({
    to_message_id: wireId('message')
      .nullish()
      .describe("The last message that is not new, of the agent's conversation."),
    before: moment.nullish().describe('Every message said at or after this time is new.'),
  })
  .refine(({ to_message_id, before }) => to_message_id == null || before == null, {
    path: ['before'],
    message: 'cannot be given with to_message_id',
  })
  .meta({ id: 'CursorRewind', examples: [{ before: '2026-11-29T00:00:00Z' }] })
  .nullish();
