import { toStorableText, type Json, type JsonObject } from '../base/json.ts';
import type { ToolOutcome } from '../model/tool.ts';
import { refuse, refused, type Refusal } from './refusal.ts';
import { codePointLength } from './text.ts';
import { parseZonedTime, type SpanEnd } from './zoned-time.ts';

/** A passage to add to archival memory. */
export interface ArchivalInsert {
  readonly kind: 'archival_insert';
  readonly content: string;
  /** Distinct, in the order given. */
  readonly tags: readonly string[];
}

/** A search of archival memory. Times are inclusive. */
export interface ArchivalSearch {
  readonly kind: 'archival_search';
  /** Cut to the limits of a search. */
  readonly query: string;
  /** Empty: any tags or none. */
  readonly tags: readonly string[];
  readonly tag_match: 'any' | 'all';
  readonly limit: number;
  readonly from: Date | null;
  readonly to: Date | null;
}

export const CONVERSATION_ROLES = ['assistant', 'user', 'tool'] as const;
export type ConversationRole = (typeof CONVERSATION_ROLES)[number];

/** A search of the agent's own conversation. Times are inclusive. */
export interface ConversationSearch {
  readonly kind: 'conversation_search';
  /** Cut to the limits of a search. Null: the latest messages. */
  readonly query: string | null;
  readonly roles: readonly ConversationRole[];
  readonly limit: number;
  readonly from: Date | null;
  readonly to: Date | null;
}

/** A call that the store answers, read from its arguments. */
export type StoreCall = ArchivalInsert | ArchivalSearch | ConversationSearch;
/** A store call, or the error in its arguments. */
export type ReadStoreCall =
  { readonly ok: true; readonly call: StoreCall } | { readonly ok: false; readonly outcome: ToolOutcome };

const PASSAGE_CHARS_MAX = 100_000;
const TAGS_MAX = 100;
const TAG_CHARS_MAX = 255;
const HITS_MAX = 100;
/**
 * Maximum number of distinct words searched, the first of the query.
 * Every text is compared with each word. So many words also tell a document, given as the query, from others.
 */
const QUERY_WORDS_MAX = 100;
/**
 * Maximum length of a query, as text without white space is a single word of any length.
 * Unit: characters.
 */
const QUERY_CHARS_MAX = 4_000;
const ARCHIVAL_HITS_DEFAULT = 10;
const CONVERSATION_HITS_DEFAULT = 5;
/**
 * Total length of the texts of a result, so that the next prompt still holds it.
 * Unit: characters.
 */
const RESULT_CHARS_MAX = 50_000;
/**
 * Maximum length of a hit's tags.
 * Unit: characters.
 */
const TAGS_CHARS_MAX = 500;

/**
 * Reads a call of `archival_memory_insert`, `archival_memory_search` or `conversation_search`.
 * Times without an offset are in the agent's `timeZone`; an end date includes that whole day. `null` counts as omitted.
 */
export function readStoreCall(toolName: string, args: JsonObject, timeZone: string): ReadStoreCall {
  const call = read(toolName, args, timeZone);
  return 'message' in call ? { ok: false, outcome: refused(toolName, call) } : { ok: true, call };
}

function read(toolName: string, args: JsonObject, timeZone: string): StoreCall | Refusal {
  switch (toolName) {
    case 'archival_memory_insert':
      return readInsert(args);
    case 'archival_memory_search':
      return readArchivalSearch(args, timeZone);
    case 'conversation_search':
      return readConversationSearch(args, timeZone);
    default:
      return { kind: 'KeyError', message: 'There is no memory tool of this name.' };
  }
}

function readInsert(args: JsonObject): StoreCall | Refusal {
  const content = textOf(args, 'content');
  if (typeof content !== 'string') return content;
  if (content.trim() === '') return refuse("Argument 'content' must not be empty.");
  const chars = codePointLength(content);
  if (chars > PASSAGE_CHARS_MAX) {
    return refuse(`Argument 'content' has ${chars} characters; a passage may have ${PASSAGE_CHARS_MAX}.`);
  }
  const tags = tagsOf(args);
  return 'message' in tags ? tags : { kind: 'archival_insert', content, tags };
}

function readArchivalSearch(args: JsonObject, timeZone: string): StoreCall | Refusal {
  const query = textOf(args, 'query');
  if (typeof query !== 'string') return query;
  const tags = tagsOf(args);
  if ('message' in tags) return tags;
  const tagMatch = args['tag_match_mode'] ?? 'any';
  if (tagMatch !== 'any' && tagMatch !== 'all') {
    return refuse("Argument 'tag_match_mode' must be 'any' or 'all'.");
  }
  const limit = limitOf(args, 'top_k', ARCHIVAL_HITS_DEFAULT);
  if (typeof limit !== 'number') return limit;
  const span = spanOf(args, timeZone, 'start_datetime', 'end_datetime');
  if ('message' in span) return span;
  return { kind: 'archival_search', query: searchedOf(query), tags, tag_match: tagMatch, limit, ...span };
}

function readConversationSearch(args: JsonObject, timeZone: string): StoreCall | Refusal {
  const query = args['query'] == null ? null : textOf(args, 'query');
  if (query !== null && typeof query !== 'string') return query;
  const asked = args['roles'] ?? CONVERSATION_ROLES;
  const isRole = (role: Json): role is ConversationRole =>
    (CONVERSATION_ROLES as readonly Json[]).includes(role);
  if (!Array.isArray(asked) || !asked.every(isRole)) {
    return refuse(`Argument 'roles' must be a list of ${CONVERSATION_ROLES.join(', ')}.`);
  }
  const roles = CONVERSATION_ROLES.filter((role) => asked.length === 0 || asked.includes(role));
  const limit = limitOf(args, 'limit', CONVERSATION_HITS_DEFAULT);
  if (typeof limit !== 'number') return limit;
  const span = spanOf(args, timeZone, 'start_date', 'end_date');
  if ('message' in span) return span;
  const isBlank = query === null || query.trim() === '';
  return { kind: 'conversation_search', query: isBlank ? null : searchedOf(query), roles, limit, ...span };
}

/** Returns the query, cut to the words and characters that a search takes. */
function searchedOf(query: string): string {
  const read = query.slice(0, QUERY_CHARS_MAX).toWellFormed();
  const words = new Set(read.split(/\s+/).filter((word) => word !== ''));
  return words.size <= QUERY_WORDS_MAX ? read : [...words].slice(0, QUERY_WORDS_MAX).join(' ');
}

function textOf(args: JsonObject, name: string): string | Refusal {
  const value = args[name] ?? null;
  if (typeof value === 'string') return toStorableText(value);
  const problem = value === null ? 'is missing' : 'must be a string';
  return { kind: 'TypeError', message: `Argument '${name}' ${problem}.` };
}

function tagsOf(args: JsonObject): readonly string[] | Refusal {
  const given: Json = args['tags'] ?? [];
  const isTag = (tag: Json): tag is string => typeof tag === 'string';
  if (!Array.isArray(given) || !given.every(isTag)) {
    return { kind: 'TypeError', message: "Argument 'tags' must be a list of strings." };
  }
  const tags = [...new Set(given.map((tag) => toStorableText(tag).trim()).filter((tag) => tag !== ''))];
  if (tags.length > TAGS_MAX || tags.some((tag) => codePointLength(tag) > TAG_CHARS_MAX)) {
    return refuse(`Argument 'tags' may hold ${TAGS_MAX} tags of at most ${TAG_CHARS_MAX} characters each.`);
  }
  return tags;
}

function limitOf(args: JsonObject, name: string, otherwise: number): number | Refusal {
  const value = args[name] ?? otherwise;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) {
    return refuse(`Argument '${name}' must be a whole number from 1 to ${HITS_MAX}.`);
  }
  return Math.min(value, HITS_MAX);
}

function spanOf(
  args: JsonObject,
  timeZone: string,
  startName: string,
  endName: string,
): { readonly from: Date | null; readonly to: Date | null } | Refusal {
  const bound = (name: string, end: SpanEnd): Date | null | Refusal => {
    const text = args[name] ?? null;
    if (text === null || text === '') return null;
    const date = typeof text === 'string' ? parseZonedTime(text, timeZone, end) : null;
    if (date !== null) return date;
    const given = typeof text === 'string' ? text : JSON.stringify(text);
    return refuse(
      `Invalid ${name} format: ${given}. Use an ISO 8601 date or time, as 2026-01-31 or 2026-01-31T14:00.`,
    );
  };
  const from = bound(startName, 'start');
  if (from !== null && 'message' in from) return from;
  const to = bound(endName, 'end');
  if (to !== null && 'message' in to) return to;
  if (from !== null && to !== null && from > to) return refuse(`${startName} is later than ${endName}.`);
  return { from, to };
}

/** A found passage, best first. */
export interface ArchivalHit {
  readonly id: string;
  readonly content: string;
  readonly tags: readonly string[];
  readonly created_at: Date;
  /** How well it fits; null without a measurement. */
  readonly rank: number | null;
}

/** A found message. */
export interface ConversationHit {
  readonly role: ConversationRole;
  readonly content: string;
  readonly created_at: Date;
  readonly rank: number | null;
}

/** Text for the model after a passage was added. */
export const ARCHIVAL_INSERTED: ToolOutcome = {
  ok: true,
  result: 'The passage was added to your archival memory.',
};

/** Makes the result of an archival search for the model: JSON, best first. Long passages are cut. */
export function archivalResult(hits: readonly ArchivalHit[]): ToolOutcome {
  const contents = shareOut(hits);
  const results = hits.map(({ id, tags, created_at, rank }, index) => {
    const shown = firstTags(tags);
    return {
      id,
      timestamp: created_at.toISOString(),
      ...(rank === null ? {} : { relevance: round(rank) }),
      tags: shown,
      ...(shown.length === tags.length ? {} : { tags_not_shown: tags.length - shown.length }),
      content: contents[index],
    };
  });
  return { ok: true, result: JSON.stringify({ message: summaryOf(hits.length), results }) };
}

/**
 * Makes the result of a conversation search for the model: JSON, in the order given.
 * `hits` are already filtered, so their number is the number reported; long hits are cut. `now` is the time of the
 * step.
 */
export function conversationResult(hits: readonly ConversationHit[], now: Date): ToolOutcome {
  const contents = shareOut(hits);
  const results = hits.map(({ role, created_at, rank }, index) => ({
    timestamp: created_at.toISOString(),
    time_ago: timeAgo(created_at, now),
    role,
    ...(rank === null ? {} : { relevance: round(rank) }),
    content: contents[index],
  }));
  return { ok: true, result: JSON.stringify({ message: summaryOf(hits.length), results }) };
}

/** Cuts the contents of hits to the length of a result; short contents leave their share to the rest. */
function shareOut(hits: readonly { readonly content: string }[]): readonly string[] {
  const lengths = hits.map(({ content }) => content.length);
  const share = fairShare(lengths, RESULT_CHARS_MAX);
  const advice = hits.length === 1 ? '' : '; fewer results show more of each';
  return hits.map(({ content }) => {
    if (content.length <= share) return content;
    const shown = content.slice(0, share).toWellFormed();
    return `${shown}… [NOTE: ${codePointLength(shown)} of ${codePointLength(content)} characters are shown${advice}]`;
  });
}

/** Returns the maximum share of each of several parts, so that together they stay within `total`. */
function fairShare(lengths: readonly number[], total: number): number {
  let left = total;
  for (const [index, length] of lengths.toSorted((one, other) => one - other).entries()) {
    const share = Math.floor(left / (lengths.length - index));
    if (length > share) return share;
    left -= length;
  }
  return total;
}

function firstTags(tags: readonly string[]): readonly string[] {
  let chars = 0;
  return tags.filter((tag) => (chars += tag.length) <= TAGS_CHARS_MAX);
}

function summaryOf(count: number): string {
  return count === 0 ? 'No results found.' : `Showing ${count} ${count === 1 ? 'result' : 'results'}:`;
}

function round(rank: number): number {
  return Math.round(rank * 10_000) / 10_000;
}

const UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
];

function timeAgo(then: Date, now: Date): string {
  const passed = Math.max(0, now.getTime() - then.getTime());
  const unit = UNITS.find(([, ms]) => passed >= ms);
  return unit === undefined ? 'just now' : `${Math.floor(passed / unit[1])}${unit[0]} ago`;
}
