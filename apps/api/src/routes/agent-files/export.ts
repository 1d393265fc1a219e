import { NightshiftError } from '@nightshift/agent-core';
import {
  listConversationMessages,
  readAgent,
  readContextSeqs,
  readReturnedCalls,
  type AgentRow,
  type MessageRow,
} from '@nightshift/db';
import { z } from 'zod';
import { toAgentFile, toLegacyFile } from '../../agent-files/write-file.ts';
import type { App, Context } from '../../context.ts';
import { BODY_LIMIT_BYTES } from '../../json-body.ts';
import { exported } from '../../schemas/agent-file.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { readAgentState } from '../../wire/to-agent-state.ts';

/** Messages of an export; a larger conversation is refused. */
const EXPORTED_MESSAGES_MAX = 10_000;
const PAGE_MESSAGES = 1_000;

/** Exports an agent as a file that Letta and this service import. */
export function exportAgent(app: App, context: Context): void {
  app.get(
    '/v1/agents/:agent_id/export',
    {
      schema: {
        operationId: 'exportAgent',
        summary: 'Export an agent as a file',
        description:
          'With its blocks, tools and the messages since its last reset. A conversation of more than 10,000 messages, or a ' +
          'file of more than 16 MiB, is refused; `strip_messages` leaves the messages out.',
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent') }),
        querystring: z.strictObject({
          use_legacy_format: z.boolean().default(false).describe("Letta's older format, with one agent."),
          strip_messages: z.boolean().default(false).describe('Leaves the messages out. Beyond Letta.'),
          max_steps: z.int().optional().describe('Ignored.'),
        }),
        response: { 200: exported, ...problems },
      },
    },
    async ({ params, query }) => {
      const row = await readAgent(context.db, context.projectId, params.agent_id);
      const agent = await readAgentState(context.db, row);
      const { from_seq, reset_seq } = await readContextSeqs(context.db, row.conversation_id);
      const messages = query.strip_messages ? [] : await readMessages(context, row, reset_seq);
      const returned_calls = await readReturnedCalls(context.db, messages);
      const parts = { agent, messages, returned_calls, from_seq, created_at: new Date().toISOString() };
      const file = query.use_legacy_format ? toLegacyFile(parts) : toAgentFile(parts);
      if (Buffer.byteLength(JSON.stringify(file)) > BODY_LIMIT_BYTES)
        throw tooLarge('The file is larger than 16 MiB');
      return file;
    },
  );
}

/** Reads the messages since the last reset. Throws: `payload_too_large`. */
async function readMessages(
  { db }: Context,
  row: AgentRow,
  resetSeq: number,
): Promise<readonly MessageRow[]> {
  const messages: MessageRow[] = [];
  let bytes = 0;
  for (let above = resetSeq; ;) {
    const range = { limit: PAGE_MESSAGES, above, below: null, from: 'oldest' } as const;
    const { rows, is_cut } = await listConversationMessages(db, row.conversation_id, range);
    messages.push(...rows);
    bytes += rows.reduce((sum, { content }) => sum + JSON.stringify(content).length, 0);
    if (messages.length > EXPORTED_MESSAGES_MAX) throw tooLarge('The agent has more than 10,000 messages');
    if (bytes > BODY_LIMIT_BYTES) throw tooLarge('The file is larger than 16 MiB');
    const last = rows.at(-1);
    if (last === undefined || (!is_cut && rows.length < PAGE_MESSAGES)) return messages;
    above = last.seq;
  }
}

function tooLarge(message: string): NightshiftError {
  const advice =
    'Export it with strip_messages=true, and read its messages by GET /v1/agents/{agent_id}/messages';
  return new NightshiftError('payload_too_large', `${message}. ${advice}.`);
}
