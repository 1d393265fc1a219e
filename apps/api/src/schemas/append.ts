import { listOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { CONTENT_PARTS_MAX, messageInput, someText, textPart } from './run-options.ts';
import { wireId } from './ids.ts';
import { moment } from './moment.ts';
import { AGENT_ID } from './examples/ids.ts';

/** Most messages of a request. */
export const MESSAGES_MAX = 100_000;

const appendedText = textPart
  .safeExtend({
    type: z.literal('text', 'must be text: images cannot be appended').describe('Images cannot be appended.'),
  })
  .meta({ id: 'AppendedTextPart' });

/**
 * A message from elsewhere, as text: an image that the provider refuses would fail every later run of the agent, not only
 * the run that brings it.
 */
const appendedMessage = messageInput
  .safeExtend({
    content: z.union([someText, listOf(appendedText, CONTENT_PARTS_MAX).min(1, 'must not be empty')]),
    otid: z
      .string()
      .min(1)
      .max(200)
      .nullish()
      .describe(
        "The caller's own id, unique among the agent's appended messages. A repeated message is counted and not stored.",
      ),
    said_at: moment.nullish().describe('When it was said; shown as `date`.'),
  })
  .meta({ id: 'AppendedMessage' });

const messages = listOf(appendedMessage, MESSAGES_MAX).min(1, 'must not be empty');

/** Messages of one agent. */
export const appendInput = z.strictObject({ messages }).meta({
  id: 'MessagesAppend',
  examples: [
    {
      messages: [
        {
          role: 'user',
          content: 'We move to Berlin in May.',
          said_at: '2026-11-30T09:12:00Z',
          otid: 'chat-7/1',
        },
        { role: 'assistant', content: 'Noted.', said_at: '2026-11-30T09:12:04Z', otid: 'chat-7/2' },
      ],
    },
  ],
});

/** Messages of one agent among several; a line of an upload. */
export const appendItem = z.strictObject({ agent_id: wireId('agent'), messages }).meta({
  id: 'MessagesAppendItem',
  examples: [{ agent_id: AGENT_ID, messages: [{ role: 'user', content: 'We move to Berlin in May.' }] }],
});

/** Messages of several agents. */
export const bulkAppendInput = z
  .strictObject({
    items: listOf(appendItem, MESSAGES_MAX)
      .min(1, 'must not be empty')
      .describe('At most 100,000 messages in total.'),
  })
  .superRefine(({ items }, context) => {
    let room = MESSAGES_MAX;
    for (const [index, item] of items.entries()) {
      if (item.messages.length > room) {
        const message = `is more than the ${MESSAGES_MAX.toLocaleString('en')} messages of a request: send the rest in another`;
        context.addIssue({ code: 'custom', path: ['items', index, 'messages', room], message });
        return;
      }
      room -= item.messages.length;
    }
  })
  .meta({
    id: 'BulkMessagesAppend',
    examples: [
      {
        items: [
          {
            agent_id: AGENT_ID,
            messages: [{ role: 'user', content: 'We move to Berlin in May.', otid: 'chat-7/1' }],
          },
        ],
      },
    ],
  });

/** Messages of an append by their fate. */
export const appendReport = z
  .object({
    appended: z.int().describe('Messages now at the end of their conversations.'),
    repeated: z.int().describe('Messages that were appended before under the same `otid`; nothing changed.'),
    waiting: z
      .int()
      .describe(
        'Messages stored until the runs that hold the conversations have ended; they enter before the next input.',
      ),
  })
  .meta({ id: 'AppendReport', examples: [{ appended: 2, repeated: 0, waiting: 0 }] });
export type AppendReport = z.output<typeof appendReport>;
