/**
 * Requests of a message batch as JSON text. The parts common to a definition's steps are serialised once; stored
 * messages are spliced in unparsed. No text holds half a surrogate pair, for which the provider refuses the whole body.
 */
import { NightshiftError } from '../../base/errors.ts';
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts';
import { hasTools, parseModelHandle, type Definition } from '../../model/definition.ts';
import { modelTraits } from '../../model/traits.ts';
import { NO_MARKS, type CacheMarks } from '../../model/cache-marks.ts';
import { withoutLoneSurrogates } from './lone-surrogates.ts';

/** A create body is `BODY_START`, requests with `BODY_SEPARATOR` between them, `BODY_END`. */
export const BODY_START = '{"requests":[';
export const BODY_SEPARATOR = ',';
export const BODY_END = ']}';
export const EMPTY_BODY_BYTES = BODY_START.length + BODY_END.length;

/** Returns the bytes of a create body with another request. `body`: its bytes so far, its end included. */
export function bodyBytesWith(
  body: { readonly bytes: number; readonly count: number },
  requestBytes: number,
): number {
  return body.bytes + (body.count === 0 ? 0 : BODY_SEPARATOR.length) + requestBytes;
}

/** Maximum number of requests in a batch. */
export const BATCH_REQUESTS_MAX = 100_000;

/** A definition, ready to be spliced. Made by {@link encodeDefinition}, used for any number of requests. */
export interface EncodedDefinition {
  /** First members of `params`, up to and including `"max_tokens":`. */
  readonly head: string;
  /** The static system block without its closing brace; empty when there is no system prompt. */
  readonly system: string;
  /** The tools, with a comma before them; the same for every step, to keep the provider's cache. */
  readonly tools: string;
  /** The tool choice of unforced steps, with a comma before it; empty for the provider's default. */
  readonly tool_choice: string;
  /** Settings, each with a comma before it. */
  readonly tail: string;
  /** Names in `model_settings.extra` that are not sent: reserved, refused in batches, or not supported by the model. */
  readonly dropped: readonly string[];
}

/** The parts that differ between requests. */
export interface RequestParts {
  /** Rendered memory, the volatile part of the system prompt; empty for none. */
  readonly memory: string;
  /** JSON text of the messages array. */
  readonly messages_json: string;
  readonly max_tokens: number;
  /**
   * The choice forced on this step.
   * Default: the definition's own.
   */
  readonly tool_choice?: JsonObject | null;
  /** Default: none. */
  readonly marks?: CacheMarks;
}

/** Members of `params` with another source. */
const OWN_MEMBERS = ['model', 'max_tokens', 'system', 'messages', 'tools'];
/** Refused at any value by API version 2026-10-21. */
const SAMPLING_MEMBERS = ['temperature', 'top_p', 'top_k'];
/** Refused in a batch: each would cost the request its answer, or the whole batch its acceptance. */
const UNBATCHABLE_MEMBERS = [
  'stream',
  'speed',
  'fallbacks',
  'store',
  'thread',
  'previous_thread_event_id',
  'cache_hint',
  'context_hint',
];
const DROPPED_MEMBERS = new Set([...OWN_MEMBERS, ...SAMPLING_MEMBERS, ...UNBATCHABLE_MEMBERS]);

/** An hour, because requests of a batch may be processed far apart. */
const MARK = ',"cache_control":{"type":"ephemeral","ttl":"1h"}';

/**
 * The place of memory in a prompt written for Letta. Here memory follows the whole prompt, so that the prompt can be
 * cached, and the mark is removed. A line with the mark alone is removed whole.
 */
const MEMORY_PLACE = /^[ \t]*\{CORE_MEMORY\}[ \t]*(?:\r?\n|$)|\{CORE_MEMORY\}/gm;

/**
 * Serialises the part of a request common to all steps of a definition.
 * Equal definitions give equal text, so the provider's prefix cache holds across steps and agents. `instructions`
 * follow the system prompt, such as the tool rules in words; blank texts are left out.
 */
export function encodeDefinition(
  definition: Definition,
  instructions: readonly string[] = [],
): EncodedDefinition {
  const { extra, parallel_tool_calls } = definition.model_settings;
  const model = parseModelHandle(definition.model)?.name ?? definition.model;
  const dropped = Object.keys(extra).filter((name) => DROPPED_MEMBERS.has(name));
  const thinking = withoutIdleBudget(extra);
  const settings = modelTraits(model).takes_effort ? thinking : withoutEffort(thinking);
  if (thinking !== extra) dropped.push('thinking.budget_tokens');
  if (settings !== thinking) dropped.push('output_config.effort');

  let tail = '';
  const addMember = (name: string, value: Json): void => {
    tail += `,${JSON.stringify(name)}:${JSON.stringify(value)}`;
  };
  let tools = '';
  let toolChoice: JsonObject | null = null;
  if (hasTools(definition)) {
    const strict = new Set(definition.strict?.tools);
    const own = definition.tools.map((tool) => encodeTool(tool, strict.has(tool.name)));
    const encoded = [...own, ...(definition.server_tools ?? [])];
    tools = withoutLoneSurrogates(`,"tools":${JSON.stringify(encoded)}`);
    toolChoice = toolChoiceOf(extra['tool_choice'], parallel_tool_calls);
  } else if ('tool_choice' in extra) dropped.push('tool_choice');
  for (const [name, value] of Object.entries(withOutputFormat(settings, definition))) {
    if (name !== 'tool_choice' && !DROPPED_MEMBERS.has(name)) addMember(name, value);
  }

  const prompt = definition.system.replace(MEMORY_PLACE, '');
  const system = [prompt, ...instructions].filter((text) => !isBlank(text)).join('\n\n');
  return {
    head: `"model":${JSON.stringify(model.toWellFormed())},"max_tokens":`,
    system: system === '' ? '' : `{"type":"text","text":${JSON.stringify(system.toWellFormed())}`,
    tools,
    tool_choice: encodeToolChoice(toolChoice),
    tail: withoutLoneSurrogates(tail),
    dropped,
  };
}

/** Removes a budget beside thinking without budget, as in agents of old releases; otherwise returns the settings. */
function withoutIdleBudget(extra: JsonObject): JsonObject {
  const { thinking } = extra;
  if (!isJsonObject(thinking) || thinking['type'] === 'enabled' || !('budget_tokens' in thinking))
    return extra;
  const { budget_tokens: _budget, ...rest } = thinking;
  return { ...extra, thinking: rest };
}

/** Removes the effort; returns the settings themselves without any. */
function withoutEffort(extra: JsonObject): JsonObject {
  const { output_config, ...others } = extra;
  if (!isJsonObject(output_config) || !('effort' in output_config)) return extra;
  const { effort: _effort, ...rest } = output_config;
  return Object.keys(rest).length === 0 ? others : { ...others, output_config: rest };
}

/** Adds the schema of the result as the provider's output format, where the definition says so. */
function withOutputFormat(settings: JsonObject, { strict, result_format }: Definition): JsonObject {
  if (strict?.result_format !== true || result_format == null) return settings;
  const { output_config } = settings;
  const format = { type: 'json_schema', schema: result_format.schema };
  return { ...settings, output_config: { ...(isJsonObject(output_config) ? output_config : {}), format } };
}

function encodeTool(tool: Definition['tools'][number], isStrict: boolean): JsonObject {
  const { name, description, input_schema } = tool;
  return {
    name,
    ...(description === '' ? {} : { description }),
    input_schema,
    ...(isStrict ? { strict: true } : {}),
  };
}

function encodeToolChoice(choice: JsonObject | null): string {
  return choice === null ? '' : `,"tool_choice":${withoutLoneSurrogates(JSON.stringify(choice))}`;
}

/** Returns the requested choice, limited to one call without parallel calls; null for the default. */
function toolChoiceOf(asked: Json | undefined, parallel: boolean): JsonObject | null {
  const choice = isJsonObject(asked) ? asked : null;
  if (parallel || choice?.['type'] === 'none') return choice;
  return { type: 'auto', ...choice, disable_parallel_tool_use: true };
}

/** The provider refuses blank text blocks. */
function isBlank(text: string): boolean {
  return text.trim() === '';
}

/** Stands before a conversation that begins with the assistant: the provider requires a user message first. */
const OPENING = JSON.stringify({
  role: 'user',
  content: [
    {
      type: 'text',
      text: JSON.stringify({ type: 'system_alert', message: 'The conversation begins here.' }),
    },
  ],
});

const FIRST_ROLE = '[{"role":"';
const FIRST_IS_USER = '[{"role":"user"';

/** Returns the bytes of a request before messages whose first has this role. */
export function openingBytes(role: string | undefined): number {
  return role === undefined || role === 'user' ? 0 : OPENING.length + 1;
}

/**
 * Encodes a request as JSON text: `{"custom_id":…,"params":{…}}`. Same arguments, same bytes.
 * Throws: as {@link requestInParts}.
 */
export function encodeRequest(customId: string, encoded: EncodedDefinition, parts: RequestParts): string {
  const { memory, messages_json, max_tokens, tool_choice = null, marks = NO_MARKS } = parts;
  const frame = encodeFrame(encoded, memory, tool_choice, marks);
  return requestInParts(customId, encoded, { frame, messages_json, max_tokens, end_mark: marks.end }).join(
    '',
  );
}

/** Encodes the text between `max_tokens` and messages: the same for equal `memory`, tool choice and cache marks. */
export function encodeFrame(
  encoded: EncodedDefinition,
  memory: string,
  toolChoice: JsonObject | null,
  marks: Omit<CacheMarks, 'end'>,
): string {
  let system = encoded.system === '' ? '' : `${encoded.system}${marks.static ? MARK : ''}}`;
  if (!isBlank(memory)) {
    if (system !== '') system += ',';
    system += `{"type":"text","text":${JSON.stringify(memory.toWellFormed())}${marks.memory ? MARK : ''}}`;
  }
  if (system !== '') system = `,"system":[${system}]`;
  const choice = toolChoice === null ? encoded.tool_choice : encodeToolChoice(toolChoice);
  return `${system}${encoded.tools}${choice}${encoded.tail},"messages":`;
}

/**
 * Encodes a request as {@link encodeRequest}, in long parts that need no joining. No part splits a JSON string.
 * Throws: `invalid_argument` for anything that would make the whole batch unreadable.
 */
export function requestInParts(
  customId: string,
  encoded: EncodedDefinition,
  parts: {
    readonly frame: string;
    readonly messages_json: string;
    readonly max_tokens: number;
    /** Marks the end of the messages; without effect behind an answer, or if a message has a mark of its own. */
    readonly end_mark: boolean;
  },
): readonly string[] {
  const { frame, messages_json, max_tokens, end_mark } = parts;
  if (!Number.isSafeInteger(max_tokens) || max_tokens < 1) {
    throw new NightshiftError(
      'invalid_argument',
      `max_tokens of ${customId} must be a whole number from 1 on.`,
    );
  }
  if (!messages_json.startsWith('[') || !messages_json.endsWith(']')) {
    throw new NightshiftError(
      'invalid_argument',
      `messages_json of ${customId} must be the text of a JSON array.`,
    );
  }
  const head = `${beforeParams(customId)}{${encoded.head}${max_tokens}`;
  const isOpen = messages_json.startsWith(FIRST_ROLE) && !messages_json.startsWith(FIRST_IS_USER);
  const sendable = withoutLoneSurrogates(messages_json);
  const messages = isOpen ? `[${OPENING},${sendable.slice(1)}` : sendable;
  if (!end_mark || !messages.endsWith(END_OF_BLOCK) || !mayBeMarked(messages))
    return [head, frame, messages, '}}'];
  return [head, frame, messages.slice(0, -END_OF_BLOCK.length), MARK, `${END_OF_BLOCK}}}`];
}

const beforeParams = (customId: string): string => `{"custom_id":${JSON.stringify(customId)},"params":`;

/** Returns the `params` of a request in parts, in parts too. */
export function paramsInParts(customId: string, request: readonly string[]): readonly string[] {
  const skipped = beforeParams(customId).length;
  return request.map((part, place) =>
    part.slice(place === 0 ? skipped : 0, place === request.length - 1 ? -1 : undefined),
  );
}

/** The end of a message's last block, of its content, of the message, and of the list. */
const END_OF_BLOCK = '}]}]';

/** Whether the last message is a user's, whose blocks all take a mark, and no message has a mark already. */
function mayBeMarked(messages: string): boolean {
  return (
    messages.lastIndexOf('{"role":"user","content":[') >
      messages.lastIndexOf('{"role":"assistant","content":[') && !messages.includes('"cache_control"')
  );
}

/** Counts the UTF-8 bytes of a text; a lone surrogate counts as the three bytes of U+FFFD, its replacement. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x80) continue;
    if (code < 0x800) bytes += 1;
    else if (code >= 0xd800 && code < 0xdc00 && isLowSurrogate(text.charCodeAt(i + 1))) {
      bytes += 2;
      i++;
    } else bytes += 2;
  }
  return bytes;
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code < 0xe000;
}
