import { isThought } from '../../model/content.ts';
import { elementsOf } from './scan.ts';

/** What a message says that held nothing but thoughts: the provider takes no empty message. */
const NOTHING_LEFT = '[{"type":"text","text":"(a thought)"}]';

/** Cheap, and true for every messages array that holds thoughts. */
export function mayHoldThoughts(messagesJson: string): boolean {
  // A search stops at every first letter: `k` is rare in prose, `t` is not.
  return messagesJson.includes('king"') && messagesJson.includes('thinking"');
}

/**
 * The JSON text of a messages array without the thoughts in its first `count` messages. All else stays to the character.
 * Models that bind thoughts take them after what they were made after alone, but do without the oldest.
 */
export function withoutThoughts(messagesJson: string, count: number): string {
  const messages = elementsOf(messagesJson).map((message, place) =>
    place < count ? withoutThoughtsOf(message) : message,
  );
  return `[${messages.join(',')}]`;
}

/** Of `{"role":…,"content":[…]}`, as requests are put together. */
function withoutThoughtsOf(message: string): string {
  const start = message.indexOf('[');
  const blocks = elementsOf(message.slice(start, -1));
  const left = blocks.filter((block) => !isThought(JSON.parse(block) as { readonly type?: unknown }));
  if (left.length === blocks.length) return message;
  return `${message.slice(0, start)}${left.length === 0 ? NOTHING_LEFT : `[${left.join(',')}]`}}`;
}
