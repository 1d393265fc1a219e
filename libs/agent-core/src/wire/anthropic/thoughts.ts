import { isThought } from '../../model/content.ts';
import { elementsOf } from './scan.ts';

/** Content of a message of thinking only; the provider refuses an empty message. */
const NOTHING_LEFT = '[{"type":"text","text":"(a thought)"}]';

/** Returns true for every messages array with thinking; cheap, with some false alarms. */
export function mayHoldThoughts(messagesJson: string): boolean {
  // A search stops at every first letter: `k` is rare in prose, `t` is not.
  return messagesJson.includes('king"') && messagesJson.includes('thinking"');
}

/**
 * Removes thinking from the first `count` messages of a messages array. All else stays unchanged to the character.
 * Models that bind thinking accept it only after its original prefix, but do without the oldest.
 */
export function withoutThoughts(messagesJson: string, count: number): string {
  const messages = elementsOf(messagesJson).map((message, place) =>
    place < count ? withoutThoughtsOf(message) : message,
  );
  return `[${messages.join(',')}]`;
}

/** Expects `{"role":…,"content":[…]}`, as requests are assembled. */
function withoutThoughtsOf(message: string): string {
  const start = message.indexOf('[');
  const blocks = elementsOf(message.slice(start, -1));
  const left = blocks.filter((block) => !isThought(JSON.parse(block) as { readonly type?: unknown }));
  if (left.length === blocks.length) return message;
  return `${message.slice(0, start)}${left.length === 0 ? NOTHING_LEFT : `[${left.join(',')}]`}}`;
}
