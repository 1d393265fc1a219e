import { toLettaMessages, type LettaMessage, type UnionOptions } from '@nightshift/agent-core';
import { listConversationMessages, readReturnedCalls, type MessageRange } from '@nightshift/db';
import type { Context } from '../../context.ts';
import { toStoredMessage } from '../../wire/to-stored-message.ts';

/** A part of a conversation as Letta's messages, in chronological order. */
export interface ShownMessages {
  readonly messages: readonly LettaMessage[];
  /** True if more rows may follow at the end opposite to `from`. */
  readonly has_more: boolean;
}

/**
 * Reads a range of a conversation. `limit` counts rows; the items of a row are never split. Skips rows that show nothing, so an
 * empty result means the end.
 */
export async function readShownMessages(
  { db }: Context,
  conversationId: string,
  range: MessageRange,
  agentId: string,
  options: UnionOptions = {},
): Promise<ShownMessages> {
  for (let rest = range; ;) {
    const { rows, is_cut } = await listConversationMessages(db, conversationId, rest);
    const returned_calls = await readReturnedCalls(db, rows);
    const messages = rows.flatMap((row) =>
      toLettaMessages(toStoredMessage(row, agentId), { ...options, returned_calls }),
    );
    const last = range.from === 'oldest' ? rows.at(-1) : rows[0];
    if (messages.length > 0 || last === undefined) {
      return { messages, has_more: is_cut || rows.length >= range.limit };
    }
    rest = range.from === 'oldest' ? { ...rest, above: last.seq } : { ...rest, below: last.seq };
  }
}
