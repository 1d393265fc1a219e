import { elementsOf } from './scan.ts';

/** Content of a message of blank texts only; the provider refuses an empty message. */
const NOTHING_LEFT = '[{"type":"text","text":"(nothing)"}]';

const KEY = '"text"';
/** White space, raw or escaped; other escapes are told apart once a message is parsed. */
const SPACE = /\s|\\[nrtf]|\\u[0-9a-fA-F]{4}/y;

/**
 * Returns true for every messages array with a blank text; cheap, with some false alarms.
 * Texts may be of any length: nothing is stored on the way.
 */
export function mayHoldBlankText(messagesJson: string): boolean {
  for (let at = messagesJson.indexOf(KEY); at >= 0; at = messagesJson.indexOf(KEY, at + 1)) {
    let next = afterSpace(messagesJson, at + KEY.length);
    if (messagesJson[next] !== ':') continue;
    next = afterSpace(messagesJson, next + 1);
    if (messagesJson[next] === '"' && messagesJson[afterSpace(messagesJson, next + 1)] === '"') return true;
  }
  return false;
}

function afterSpace(text: string, from: number): number {
  let at = from;
  while (isSpaceStart(text.charCodeAt(at))) {
    SPACE.lastIndex = at;
    if (!SPACE.test(text)) break;
    at = SPACE.lastIndex;
  }
  return at;
}

/** Returns whether white space may begin with this character, which excludes most texts. */
function isSpaceStart(code: number): boolean {
  return code <= 0x20 || code === 0x5c || code >= 0x80;
}

/**
 * Removes blank text blocks from the JSON text of a messages array. Models write them; the provider refuses them.
 * All else stays unchanged to the character.
 */
export function withoutBlankTexts(messagesJson: string): string {
  return `[${elementsOf(messagesJson).map(withoutBlankTextsOf).join(',')}]`;
}

/** Expects `{"role":…,"content":[…]}`, as requests are assembled. */
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
