import { hash } from 'node:crypto';
import type { Model } from '../models.ts';
import type { ContentBlock, MessageParams } from '../scripts/script.ts';
import { tokensOfBytes } from '../tokens.ts';

/** A place of the prompt where the cache may hold an entry. */
export interface Prefix {
  /** Hash of workspace, model and every block up to this place. */
  readonly key: number;
  /** Tokens from the start of the prompt to this place. */
  readonly tokens: number;
  /** Time to live of the mark at this place; 0 without a mark. */
  readonly ttlMs: number;
}

/** Number of blocks that a look-up visits, the marked block included. */
const LOOK_BACK_BLOCKS = 20;
const MINUTE_MS = 60_000;

interface PromptBlock {
  /** `tools`, `system`, or the role of a message. */
  readonly part: string;
  readonly block: object;
  /** Time to live of its mark; 0 without a mark. */
  ttlMs: number;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

function ttlOf(owner: unknown): number {
  const control = isObject(owner) ? owner['cache_control'] : undefined;
  if (!isObject(control)) return 0;
  return (control['ttl'] === '1h' ? 60 : 5) * MINUTE_MS;
}

/** Checks cheaply for `cache_control`, because hashing a prompt is expensive. */
function isMarked(params: MessageParams): boolean {
  const marked = (block: unknown): boolean => ttlOf(block) > 0;
  return (
    marked(params) ||
    (params.tools ?? []).some(marked) ||
    (Array.isArray(params.system) && params.system.some(marked)) ||
    params.messages.some(({ content }) => Array.isArray(content) && content.some(marked))
  );
}

/** Lists all blocks in the provider's order; a string is one text block. */
function promptBlocks(params: MessageParams): PromptBlock[] {
  const blocks: PromptBlock[] = [];
  const add = (part: string, block: object): void => void blocks.push({ part, block, ttlMs: ttlOf(block) });
  const addAll = (part: string, content: string | readonly ContentBlock[]): void => {
    if (typeof content === 'string') add(part, { type: 'text', text: content });
    else for (const block of content) add(part, block);
  };
  for (const tool of params.tools ?? []) add('tools', tool);
  if (params.system !== undefined) addAll('system', params.system);
  const ofMessages = blocks.length;
  for (const { role, content } of params.messages) addAll(`messages ${role}`, content);
  const automatic = ttlOf(params);
  const last = automatic > 0 ? blocks.findLast(({ block }) => isCacheable(block)) : undefined;
  if (last?.ttlMs === 0) last.ttlMs = automatic;
  const first = blocks[ofMessages];
  // Settings that change the messages' part of the prompt, and leave tools and system prompt cached.
  if (first !== undefined)
    blocks[ofMessages] = { ...first, part: `${first.part} ${messageSettings(params)}` };
  return blocks;
}

/** The automatic mark skips thoughts and empty texts. */
function isCacheable(block: object): boolean {
  const { type, text } = block as { type?: unknown; text?: unknown };
  return type !== 'thinking' && type !== 'redacted_thinking' && !(type === 'text' && text === '');
}

const holdsImage = (content: unknown): boolean =>
  Array.isArray(content) &&
  content.some((block) => isObject(block) && (block['type'] === 'image' || holdsImage(block['content'])));

function messageSettings(params: MessageParams): string {
  const { tool_choice = { type: 'auto' }, thinking = null, output_config = null } = params;
  const images = params.messages.some(({ content }) => holdsImage(content));
  return JSON.stringify({ tool_choice, thinking, output_config, images });
}

/** Serialises a block as it was sent, without its mark. */
function bytesOf(block: object): string {
  if (!('cache_control' in block)) return JSON.stringify(block);
  const { cache_control: _mark, ...rest } = block;
  return JSON.stringify(rest);
}

/** 52 bits of a hash: a number holds them exactly. */
const keyOf = (digest: string): number => Number.parseInt(digest.slice(0, 13), 16);

/**
 * Lists the prefixes of a request that the cache is asked for, the shortest first: every mark, and the blocks before it that
 * its look-up visits. Empty without a mark on a prefix that is long enough for the model.
 */
export function prefixesOf(
  workspace: string,
  params: MessageParams,
  model: Model,
  paramsBytes: number,
): readonly Prefix[] {
  const total = tokensOfBytes(paramsBytes);
  if (total < model.min_cacheable_tokens || !isMarked(params)) return [];
  const blocks = promptBlocks(params);
  const lastMark = blocks.findLastIndex(({ ttlMs }) => ttlMs > 0);
  const found: Prefix[] = [];
  let digest = JSON.stringify([workspace, model.id]);
  let bytes = 0;
  for (const [index, { part, block, ttlMs }] of blocks.entries()) {
    if (index > lastMark) break;
    const text = bytesOf(block);
    bytes += Buffer.byteLength(text);
    digest = hash('sha256', `${digest} ${part}\n${text}`, 'hex');
    const tokens = Math.min(total, tokensOfBytes(bytes));
    if (tokens < model.min_cacheable_tokens) continue;
    const visited = blocks.slice(index, index + LOOK_BACK_BLOCKS).some((later) => later.ttlMs > 0);
    if (visited) found.push({ key: keyOf(digest), tokens, ttlMs });
  }
  return found.some(({ ttlMs }) => ttlMs > 0) ? found : [];
}
