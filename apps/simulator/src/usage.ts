import type { Model, Prices } from './models.ts';
import type { ContentBlock, MessageParams } from './scripts/script.ts';

/** The billed tokens of one answer. */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_write_5m_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly cache_read_tokens: number;
}

/** Bytes per token of the simulator's tokenizer. */
const BYTES_PER_TOKEN = 4;

/** Estimates the tokens of `bytes` bytes of JSON. */
export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

interface Breakpoint {
  /** Tokens from the start of the prompt to this point. */
  readonly tokens: number;
  readonly ttl: '5m' | '1h';
  /** True in the tools, the system prompt, or a message of an earlier request of the conversation. */
  readonly shared: boolean;
}

const ttlOf = (control: unknown): '5m' | '1h' | undefined => {
  if (typeof control !== 'object' || control === null) return undefined;
  return (control as { ttl?: unknown }).ttl === '1h' ? '1h' : '5m';
};

const sizeOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/** Lists the cache breakpoints of a request in prompt order: tools, system, messages. */
function breakpointsOf(params: MessageParams): Breakpoint[] {
  const found: Breakpoint[] = [];
  let bytes = 0;
  const visit = (block: unknown, shared: boolean): void => {
    bytes += sizeOf(block);
    const ttl = ttlOf((block as { cache_control?: unknown } | null)?.cache_control);
    if (ttl !== undefined) found.push({ tokens: tokensOfBytes(bytes), ttl, shared });
  };
  for (const tool of params.tools ?? []) visit(tool, true);
  if (Array.isArray(params.system)) for (const block of params.system) visit(block, true);
  else bytes += sizeOf(params.system ?? '');
  const lastAssistant = params.messages.findLastIndex((message) => message.role === 'assistant');
  params.messages.forEach((message, index) => {
    if (typeof message.content === 'string') bytes += sizeOf(message.content);
    else for (const block of message.content) visit(block, index < lastAssistant);
  });
  const automatic = ttlOf(params['cache_control']);
  if (automatic !== undefined) found.push({ tokens: tokensOfBytes(bytes), ttl: automatic, shared: false });
  return found;
}

/**
 * Computes the usage of a request of `paramsBytes` bytes. Without `cache_control` all tokens are plain input.
 *
 * A cache hit (`hitDraw` below `hitFraction`) reads up to the last shared breakpoint and writes from there to the last
 * breakpoint. A miss writes up to the last breakpoint. Prefixes below the model's minimum are not cached.
 */
export function usageOf(
  params: MessageParams,
  paramsBytes: number,
  outputTokens: number,
  model: Model,
  hitFraction: number,
  hitDraw: () => number,
): Usage {
  const total = tokensOfBytes(paramsBytes);
  const plain: Usage = {
    input_tokens: total,
    output_tokens: outputTokens,
    cache_write_5m_tokens: 0,
    cache_write_1h_tokens: 0,
    cache_read_tokens: 0,
  };
  const breakpoints = mayCache(params)
    ? breakpointsOf(params).filter((b) => b.tokens >= model.min_cacheable_tokens)
    : [];
  if (breakpoints.length === 0) return plain;
  const sharedUpTo = breakpoints.findLast((b) => b.shared)?.tokens ?? 0;
  const read = Math.min(total, hitDraw() < hitFraction ? sharedUpTo : 0);
  let written = read;
  const writes = { '5m': 0, '1h': 0 };
  for (const { tokens, ttl } of breakpoints) {
    const upTo = Math.min(tokens, total);
    if (upTo <= written) continue;
    writes[ttl] += upTo - written;
    written = upTo;
  }
  return {
    input_tokens: total - written,
    output_tokens: outputTokens,
    cache_write_5m_tokens: writes['5m'],
    cache_write_1h_tokens: writes['1h'],
    cache_read_tokens: read,
  };
}

/** Checks cheaply for `cache_control`, since measuring each part is expensive. */
function mayCache(params: MessageParams): boolean {
  const marked = (block: unknown): boolean =>
    typeof block === 'object' &&
    block !== null &&
    (block as { cache_control?: unknown }).cache_control != null;
  return (
    params['cache_control'] != null ||
    (params.tools ?? []).some(marked) ||
    (Array.isArray(params.system) && params.system.some(marked)) ||
    params.messages.some((message) => Array.isArray(message.content) && message.content.some(marked))
  );
}

/** Estimates the output tokens of `content`. */
export function outputTokensOf(contentJson: string): number {
  return Math.max(1, tokensOfBytes(Buffer.byteLength(contentJson)));
}

/** Prices a usage in USD, before the batch discount. */
export function listPriceUsd(model: Model, usage: Usage): number {
  const prompt =
    usage.input_tokens + usage.cache_write_5m_tokens + usage.cache_write_1h_tokens + usage.cache_read_tokens;
  const prices: Prices =
    model.long_prompt !== undefined && prompt > model.long_prompt.above_tokens ? model.long_prompt : model;
  return (
    (usage.input_tokens * prices.input +
      usage.cache_write_5m_tokens * prices.write_5m +
      usage.cache_write_1h_tokens * prices.write_1h +
      usage.cache_read_tokens * prices.read +
      usage.output_tokens * prices.output) /
    1_000_000
  );
}

/** Formats the wire shape of a usage as JSON. */
export function usageJson(
  usage: Usage,
  serviceTier: 'batch' | 'standard',
  content: readonly ContentBlock[],
): string {
  const searches = content.filter(
    (block) => block.type === 'server_tool_use' && block['name'] === 'web_search',
  ).length;
  const serverTools = searches > 0 ? `{"web_search_requests":${searches},"web_fetch_requests":0}` : 'null';
  return (
    `{"input_tokens":${usage.input_tokens},"output_tokens":${usage.output_tokens}` +
    `,"cache_creation_input_tokens":${usage.cache_write_5m_tokens + usage.cache_write_1h_tokens}` +
    `,"cache_read_input_tokens":${usage.cache_read_tokens}` +
    `,"cache_creation":{"ephemeral_5m_input_tokens":${usage.cache_write_5m_tokens}` +
    `,"ephemeral_1h_input_tokens":${usage.cache_write_1h_tokens}}` +
    `,"service_tier":"${serviceTier}","inference_geo":"global","speed":null` +
    `,"server_tool_use":${serverTools},"output_tokens_details":null}`
  );
}
