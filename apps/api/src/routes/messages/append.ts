import { appendMessages as commitAppend, inTransaction, type AppendItem } from '@nightshift/db';
import { BATCH_BYTES_MAX, toMessages } from '@nightshift/intake';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { appendInput, appendReport, bulkAppendInput } from '../../schemas/append.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';

const ALL_OR_NOTHING =
  'Later runs see them like any other message. Up to 100,000 messages, all or none. Safe to repeat if every message has ' +
  'an `otid`.';

/** Appends messages to the conversation of an agent. */
export function appendMessages(app: App, context: Context): void {
  app.post(
    '/v1/agents/:agent_id/messages/append',
    {
      bodyLimit: BATCH_BYTES_MAX,
      schema: {
        operationId: 'appendMessages',
        summary: 'Append messages to an agent without a run',
        description: `Adds messages that were said elsewhere to the agent's conversation, in the given order. ${ALL_OR_NOTHING} Beyond Letta.`,
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        body: appendInput,
        response: { 200: appendReport, ...problems },
      },
    },
    ({ params, body }) => append(context, [toItem({ ...params, ...body }, '')]),
  );
}

/** Appends messages to the conversations of many agents. */
export function appendMessagesOfAgents(app: App, context: Context): void {
  app.post(
    '/v1/messages/append',
    {
      bodyLimit: BATCH_BYTES_MAX,
      schema: {
        operationId: 'appendMessagesOfAgents',
        summary: 'Append messages to many agents without runs',
        description: `Adds messages that were said elsewhere to the agents' conversations, in the given order. ${ALL_OR_NOTHING} Beyond Letta.`,
        tags: ['agents'],
        body: bulkAppendInput,
        response: { 200: appendReport, ...problems },
      },
    },
    ({ body }) =>
      append(
        context,
        body.items.map((item, index) => toItem(item, `/items/${index}`)),
      ),
  );
}

function append({ db, projectId }: Context, items: readonly AppendItem[]) {
  return inTransaction(db, (trx) => commitAppend(trx, projectId, items));
}

interface RequestedItem extends z.output<typeof appendInput> {
  readonly agent_id: string;
}

function toItem({ agent_id, messages }: RequestedItem, path: string): AppendItem {
  const said = toMessages({ messages });
  return {
    agent_id,
    path,
    messages: said.map((message, index) => ({ ...message, said_at: messages[index]?.said_at ?? null })),
  };
}
