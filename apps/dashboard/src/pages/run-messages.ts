import type { LettaMessage } from '@nightshift/client';
import { nightshift } from '../api/client.ts';

/** Items of a page of a conversation, at least: all items of the last message belong to it. */
const PAGE_ITEMS = 100;

/** A page of a conversation. */
export interface MessagePage {
  readonly items: readonly LettaMessage[];
  /** Cursor of the next page; undefined on the last. */
  readonly next: string | undefined;
}

/** Reads a page of the messages of a run, oldest first. The items of a message share its id, and stay together. */
export async function readMessages(runId: string, after: string | undefined): Promise<MessagePage> {
  const items: LettaMessage[] = [];
  for await (const item of nightshift.runs.messages(runId, { order: 'asc', limit: PAGE_ITEMS, after })) {
    const last = items.at(-1);
    if (items.length >= PAGE_ITEMS && last !== undefined && last.id !== item.id)
      return { items, next: last.id };
    items.push(item);
  }
  return { items, next: undefined };
}
