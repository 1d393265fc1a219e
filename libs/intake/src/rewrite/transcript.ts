import { estimateContentTokens } from '@nightshift/agent-core';
import type { NewMessage } from '@nightshift/db';

/** New messages that one run reads. */
export interface TranscriptPart {
  /** Messages, or a piece of one, as they stand in the input. */
  readonly entries: readonly string[];
  /** The last message that is complete with this part; null for a piece in the middle of a message. */
  readonly to_seq: number | null;
}

export interface TranscriptPlan {
  readonly parts: readonly TranscriptPart[];
  /** Whether messages are left for the next time. */
  readonly is_cut: boolean;
}

/**
 * Divides messages, oldest first, into at most `partsMax` parts of about `tokensMax` tokens.
 * A message larger than a part is given in pieces, one a part, and only if all of its pieces have room; otherwise it comes
 * first the next time. A message larger than all parts loses its middle, and says so.
 */
export function planTranscript(
  messages: readonly NewMessage[],
  tokensMax: number,
  partsMax: number,
): TranscriptPlan {
  const parts: OpenPart[] = [];
  for (const message of messages) {
    const { seq } = message;
    const entry = renderMessage(message);
    const tokens = tokensOf(entry);
    const last = parts.at(-1);
    if (last !== undefined && last.tokens + tokens <= tokensMax) {
      last.entries.push(entry);
      last.to_seq = seq;
      last.tokens += tokens;
      continue;
    }
    const isFirst = last === undefined;
    const pieces =
      tokens <= tokensMax ? [entry] : piecesOf(message, tokensMax, isFirst ? partsMax : Infinity);
    if (parts.length + pieces.length > partsMax) return { parts, is_cut: true };
    for (const [index, piece] of pieces.entries()) {
      const to_seq = index === pieces.length - 1 ? seq : null;
      parts.push({ entries: [piece], to_seq, tokens: tokensOf(piece) });
    }
  }
  return { parts, is_cut: false };
}

interface OpenPart {
  readonly entries: string[];
  to_seq: number | null;
  tokens: number;
}

/** Renders a message, or a piece of it, as an element that its text cannot close. */
function renderMessage(message: NewMessage, piece: string | null = null): string {
  const { role, at, name, text } = message;
  const attributes = [
    `role="${role}"`,
    `at="${toMinute(at)}"`,
    ...(name === null ? [] : [`name="${toAttribute(name)}"`]),
    ...(piece === null ? [] : [`piece="${piece}"`]),
  ];
  return `<message ${attributes.join(' ')}>\n${escapeTags(text)}\n</message>`;
}

/** Renders a message too large for one part in pieces, at most `piecesMax`. */
function piecesOf(message: NewMessage, tokensMax: number, piecesMax: number): readonly string[] {
  const room = tokensMax - tokensOf(renderMessage({ ...message, text: '' }, '100 of 100'));
  const texts = splitText(message.text, Math.max(room, PIECE_TOKENS_MIN));
  const kept = texts.length <= piecesMax ? texts : withoutMiddle(texts, piecesMax);
  return kept.map((text, index) => renderMessage({ ...message, text }, `${index + 1} of ${kept.length}`));
}

const PIECE_TOKENS_MIN = 100;

/** Keeps the first and last pieces, and says where how much is left out. */
function withoutMiddle(texts: readonly string[], piecesMax: number): readonly string[] {
  const head = texts.slice(0, Math.ceil(piecesMax / 2));
  const tail = texts.slice(texts.length - (piecesMax - head.length));
  const chars = texts
    .slice(head.length, texts.length - tail.length)
    .reduce((sum, text) => sum + text.length, 0);
  const last = head.length - 1;
  return [
    ...head.slice(0, last),
    `${head[last] ?? ''}\n[… ${chars} characters of this message are left out …]`,
    ...tail,
  ];
}

/** Cuts a text at whole characters into pieces of at most `tokensMax` tokens. */
function splitText(text: string, tokensMax: number): readonly string[] {
  const pieces: string[] = [];
  let from = 0;
  while (from < text.length) {
    let length = Math.min(text.length - from, tokensMax * CHARS_PER_TOKEN_MAX);
    while (length > 1 && tokensOf(escapeTags(text.slice(from, from + length))) > tokensMax) {
      length = Math.floor(length * 0.8);
    }
    const isBetweenSurrogates = /[\ud800-\udbff]/.test(text.charAt(from + length - 1));
    const to = from + length + (isBetweenSurrogates && from + length < text.length ? 1 : 0);
    pieces.push(text.slice(from, to));
    from = to;
  }
  return pieces;
}

/** No estimate takes fewer tokens for a text. */
const CHARS_PER_TOKEN_MAX = 8;

export function tokensOf(text: string): number {
  return estimateContentTokens([{ type: 'text', text }]);
}

/** Elements of the input. */
const TAG = /<(?=\s*\/?\s*(?:task|instruction|agent_system_prompt|new_messages|message)\b)/gi;

/** Keeps a text from opening or closing an element of the input. */
export function escapeTags(text: string): string {
  return text.replace(TAG, '<\\');
}

const ESCAPES: Readonly<Record<string, string>> = { '"': '&quot;', '<': '&lt;', '>': '&gt;', '&': '&amp;' };

/** Returns a text as the value of an attribute, in one line. */
function toAttribute(text: string): string {
  return text.replace(/\s+/g, ' ').replace(/["<>&]/g, (character) => ESCAPES[character] ?? '');
}

/** Returns a time as a UTC date with hours and minutes. */
export function toMinute(at: Date): string {
  const iso = at.toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
}
