import { isJsonObject } from '@nightshift/agent-core';
import type { FileMessage } from './file-schema.ts';
import type { LeftOut } from './left-out.ts';

type Speaker = 'user' | 'assistant' | 'system';

interface Text {
  readonly type: 'text';
  readonly text: string;
}

/** A message to append, and its place in the file. */
export interface KeptMessage {
  readonly path: string;
  readonly message: {
    readonly role: Speaker;
    readonly content: readonly Text[];
    readonly name: string | null;
    readonly otid: string | null;
    readonly said_at: string | null;
  };
}

/** Why a message of a role is left out. */
const ROLES: ReadonlyMap<string, string> = new Map([
  ['tool', 'results of tool calls cannot be appended'],
  ['function', 'results of tool calls cannot be appended'],
  ['approval', 'approvals cannot be appended'],
  ['summary', 'summaries are written anew'],
]);
const SPEAKERS: ReadonlySet<string> = new Set(['user', 'assistant', 'system']);

/** Why a part of a message is left out. */
const PARTS: ReadonlyMap<string, string> = new Map([
  ['image', 'images cannot be appended'],
  ['reasoning', "the model's reasoning cannot be appended"],
  ['redacted_reasoning', "the model's reasoning cannot be appended"],
  ['omitted_reasoning', "the model's reasoning cannot be appended"],
  ['summarized_reasoning', "the model's reasoning cannot be appended"],
  ['tool_call', 'tool calls cannot be appended'],
  ['tool_return', 'results of tool calls cannot be appended'],
]);

/** The tool by which older agents speak, and its argument. */
const SPEAKING_TOOL = 'send_message';

/**
 * Reads the messages of an agent: the texts of users, assistants and system messages. `isOwn`: the file is an export of this
 * service, whose messages are not packed and do not begin with the system prompt. A repeated `otid` stands once.
 */
export function readMessages(
  messages: readonly FileMessage[],
  path: string,
  isOwn: boolean,
): { readonly kept: readonly KeptMessage[]; readonly left_out: readonly LeftOut[] } {
  const kept: KeptMessage[] = [];
  const left_out: LeftOut[] = [];
  const otids = new Set<string>();
  for (const [index, message] of messages.entries()) {
    const at = `${path}/${index}`;
    const reason = isOwn ? null : reasonOf(message, index === 0);
    const texts = reason === null ? textsOf(message, at, isOwn, left_out) : [];
    if (texts.length === 0) {
      if (reason !== null || isBare(message))
        left_out.push({ path: at, reason: reason ?? roleReason(message) });
      continue;
    }
    const { role, name = null, otid: given = null, created_at = null } = message;
    const otid = given === null || given === '' || otids.has(given) ? null : given;
    if (otid !== null) otids.add(otid);
    kept.push({
      path: at,
      message: { role: role as Speaker, content: texts, name, otid, said_at: toMoment(created_at) },
    });
  }
  return { kept, left_out };
}

/** Letta's first message is the compiled system prompt; it also stores events as messages of the user. */
function reasonOf(message: FileMessage, isFirst: boolean): string | null {
  if (isFirst && message.role === 'system') return 'the system prompt is compiled for every request';
  const event = message.role === 'user' ? packedOf(wholeText(message)) : null;
  if (event === null || event.type === 'user_message') return null;
  return `the event '${event.type}' of Letta is no message`;
}

/** Whether no part of a message was named as left out. */
function isBare({ role, content, tool_calls }: FileMessage): boolean {
  if (!SPEAKERS.has(role)) return true;
  return (content ?? []).length === 0 && (tool_calls ?? []).length === 0;
}

function roleReason({ role }: FileMessage): string {
  if (SPEAKERS.has(role)) return 'it has no text';
  return ROLES.get(role) ?? `messages of the role '${role}' cannot be appended`;
}

/** Returns the texts of a message, and names its other parts. */
function textsOf(message: FileMessage, path: string, isOwn: boolean, left_out: LeftOut[]): readonly Text[] {
  if (!SPEAKERS.has(message.role)) return [];
  const { content } = message;
  const texts: Text[] = [];
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
  const spoken = isOwn ? [] : spokenBy(message);
  for (const [index, part] of parts.entries()) {
    const at = typeof content === 'string' ? `${path}/content` : `${path}/content/${index}`;
    if (part.type !== 'text' || typeof part['text'] !== 'string')
      left_out.push({
        path: at,
        reason: PARTS.get(part.type) ?? `parts of the type '${part.type}' cannot be appended`,
      });
    else if (spoken.length > 0 && part['text'] !== '')
      left_out.push({ path: at, reason: PARTS.get('reasoning') ?? '' });
    else if (part['text'] !== '')
      texts.push({ type: 'text', text: isOwn ? part['text'] : unpack(part['text'], message) });
  }
  for (const [index, call] of (message.tool_calls ?? []).entries()) {
    if (!isOwn && call.function?.name === SPEAKING_TOOL) continue;
    left_out.push({ path: `${path}/tool_calls/${index}`, reason: PARTS.get('tool_call') ?? '' });
  }
  return [...texts, ...spoken.map((text) => ({ type: 'text' as const, text }))];
}

/** Returns the words that an older agent said by its speaking tool. */
function spokenBy({ tool_calls }: FileMessage): readonly string[] {
  return (tool_calls ?? []).flatMap(({ function: call }) => {
    if (call?.name !== SPEAKING_TOOL) return [];
    const said = parsed(call['arguments'])?.['message'];
    return typeof said === 'string' && said !== '' ? [said] : [];
  });
}

/** Letta packs messages of users, with their time. */
interface Packed {
  readonly type: string;
  readonly message: unknown;
}

function packedOf(text: string): Packed | null {
  if (!text.startsWith('{')) return null;
  const value = parsed(text);
  return typeof value?.['type'] === 'string' && 'time' in value
    ? { type: value['type'], message: value['message'] }
    : null;
}

function unpack(text: string, { role }: FileMessage): string {
  const packed = role === 'user' ? packedOf(text) : null;
  return packed !== null && typeof packed.message === 'string' && packed.message !== ''
    ? packed.message
    : text;
}

function wholeText({ content }: FileMessage): string {
  if (typeof content === 'string') return content;
  const [only, ...others] = content ?? [];
  return others.length === 0 && typeof only?.['text'] === 'string' ? only['text'] : '';
}

function parsed(text: unknown): Readonly<Record<string, unknown>> | null {
  if (typeof text !== 'string') return null;
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** Returns a time with its zone; Letta's older files leave out UTC. Another text is refused by the schema of messages. */
function toMoment(text: string | null): string | null {
  if (text === null) return null;
  return /^\d{4}-\d\d-\d\dT[\d:.]+$/.test(text) ? `${text}Z` : text;
}
