/**
 * Recovers owner and cost from a damaged result line. Nothing here recurses, throws, or takes more than a few passes
 * over the text.
 */
import { endOfString, type JsonObject } from '../../base/json.ts';

const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** Levels kept of a line that nests too deep; usage and its parts lie above them. */
const LEVELS_KEPT = 6;
/** Characters searched for usage at the end of a line. */
const TAIL_CHARS = 4_096;
/** Characters of a member, and members, that are read: invalid JSON takes long to be refused. */
const MEMBER_CHARS_MAX = 65_536;
const MEMBERS_MAX = 64;

/**
 * Replaces each value deeper than {@link LEVELS_KEPT} by 0, unread.
 * A whole line stays JSON; a line with open brackets at its end stays invalid.
 */
export function withoutDepths(line: string): string {
  const kept: string[] = [];
  let depth = 0;
  let from = 0;
  for (let i = 0; i < line.length; i++) {
    const code = line.charCodeAt(i);
    if (code === QUOTE) i = endOfString(line, i);
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      if (depth++ === LEVELS_KEPT) kept.push(line.slice(from, i), '0');
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      if (--depth === LEVELS_KEPT) from = i + 1;
    }
  }
  if (depth <= LEVELS_KEPT) kept.push(line.slice(from));
  return kept.join('');
}

/** Members of the message with cost facts. */
const BILL_MEMBERS: ReadonlySet<string> = new Set(['"usage"', '"model"', '"id"', '"stop_reason"']);

/**
 * Reads members of `result.message` from invalid JSON, by its brackets and quotes.
 * Where they cannot be followed, usage is read from the end of the line.
 */
export function salvageMessage(line: string): JsonObject {
  const found: Record<string, JsonObject[string]> = {};
  /** The quoted key of each level, from the outside in. */
  const path: string[] = [];
  let depth = 0;
  let members = 0;
  for (let i = 0; i < line.length && members < MEMBERS_MAX; i++) {
    const code = line.charCodeAt(i);
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--;
    else if (code === QUOTE) {
      const end = endOfString(line, i);
      const colon = depth <= 3 ? skipSpace(line, end + 1) : end;
      if (depth >= 1 && line.charCodeAt(colon) === COLON) {
        const key = line.slice(i, end + 1);
        path[depth] = key;
        if (depth === 3 && path[1] === '"result"' && path[2] === '"message"' && BILL_MEMBERS.has(key)) {
          members++;
          const value = memberAt(line, skipSpace(line, colon + 1));
          if (value !== undefined) found[key.slice(1, -1)] = value;
        }
      }
      i = end;
    }
  }
  const usage = found['usage'] ?? usageAtEnd(line);
  return usage === null ? found : { ...found, usage };
}

/** The rest of a whole line behind its usage: other members of the message, and closing brackets. */
const BEHIND_USAGE = /^(?:\s*,\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|[\w.+-]+))*\s*\}\s*\}\s*\}\s*$/;

/** Reads the usage at the end of a line, or of its last part; null for any other ending. */
export function usageAtEnd(line: string): JsonObject[string] | null {
  const tail = line.slice(-TAIL_CHARS);
  const key = tail.lastIndexOf('"usage"');
  const colon = skipSpace(tail, key + '"usage"'.length);
  if (key === -1 || tail.charCodeAt(colon) !== COLON) return null;
  const start = skipSpace(tail, colon + 1);
  const usage = memberAt(tail, start);
  if (usage === undefined) return null;
  return BEHIND_USAGE.test(tail.slice(endOfValue(tail, start))) ? usage : null;
}

const LEADING_CUSTOM_ID = /^\uFEFF?\s*\{\s*"custom_id"\s*:\s*"([a-zA-Z0-9_-]{1,64})"/;

/**
 * Reads the `custom_id` at the start of a damaged or too long line.
 * So its step need not wait for ever. Null when the line does not begin with it.
 */
export function salvageCustomId(head: string): string | null {
  return LEADING_CUSTOM_ID.exec(head)?.[1] ?? null;
}

/** Reads the value at `start`; undefined where it is no JSON, or too long. */
function memberAt(text: string, start: number): JsonObject[string] | undefined {
  const value = text.slice(start, endOfValue(text, start));
  if (value.length > MEMBER_CHARS_MAX) return undefined;
  try {
    return JSON.parse(value) as JsonObject[string];
  } catch {
    return undefined;
  }
}

/** Returns the index after the value at `start`, by quotes and brackets alone. Gives up on a value that is too long. */
function endOfValue(text: string, start: number): number {
  const last = Math.min(text.length, start + MEMBER_CHARS_MAX + 1);
  let depth = 0;
  for (let i = start; i < last; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      i = endOfString(text, i);
      if (depth === 0) return i + 1;
    } else if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      if (--depth <= 0) return depth === 0 ? i + 1 : i;
    } else if (depth === 0 && (code === 0x2c || code === 0x20)) return i;
  }
  return last;
}

function skipSpace(text: string, i: number): number {
  for (;;) {
    const code = text.charCodeAt(i);
    if (code !== 0x20 && code !== 0x09 && code !== 0x0a && code !== 0x0d) return i;
    i++;
  }
}
