import { elementsOf } from './scan.ts';

/** What a message says that held nothing but blank texts: the provider takes no empty message. */
const NOTHING_LEFT = '[{"type":"text","text":"(nothing)"}]';

/** White space may stand as it is or escaped; other escaped characters are told apart once a message is looked at. */
const BLANK_TEXT = /"text"\s*:\s*"(?:\s|\\[nrtf]|\\u[0-9a-fA-F]{4})*"/;

/** Cheap, and true for every messages array that holds a blank text. */
export function mayHoldBlankText(messagesJson: string): boolean {
  return BLANK_TEXT.test(messagesJson);
}

/**
 * The JSON text of a messages array without its text blocks that say nothing: models write them, and the provider takes
 * none back. All else stays to the character.
 */
export function withoutBlankTexts(messagesJson: string): string {
  return `[${elementsOf(messagesJson).map(withoutBlankTextsOf).join(',')}]`;
}

/** Of `{"role":…,"content":[…]}`, as requests are put together. */
function withoutBlankTextsOf(message: string): string {
  if (!mayHoldBlankText(message)) return message;
  const start = message.indexOf('[');
  const blocks = elementsOf(message.slice(start, -1));
  const left = blocks.filter((block) => !isBlankText(block));
  if (left.length === blocks.length) return message;
  return `${message.slice(0, start)}${left.length === 0 ? NOTHING_LEFT : `[${left.join(',')}]`}}`;
}

function isBlankText(block: string): boolean {
  if (!mayHoldBlankText(block)) return false;
  const { type, text } = JSON.parse(block) as { readonly type?: unknown; readonly text?: unknown };
  return type === 'text' && typeof text === 'string' && text.trim() === '';
}
