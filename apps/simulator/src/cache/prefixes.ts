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

/** The state of the hash after one block. */
interface Hashed extends Prefix {
  readonly before: string;
  readonly text: string;
  readonly digest: string;
  readonly bytes: number;
}

/** Leading blocks whose last hash is kept, since requests of one definition begin alike. */
const KEPT_BLOCKS = 32;

/** Lists the prefixes of requests. It keeps the hashes of the request before, and its first blocks. */
export interface PrefixReader {
  /**
   * Lists the prefixes of a request that the cache is asked for, the shortest first: every mark, and the blocks before it that
   * its look-up visits. Empty without a mark on a prefix that is long enough for the model.
   */
  prefixesOf(params: MessageParams, model: Model, paramsBytes: number): readonly Prefix[];
}

/** Creates a reader for the requests of one workspace. */
export function createPrefixReader(workspace: string): PrefixReader {
  const kept: Hashed[] = [];

  function hashed(index: number, before: Hashed | string, { part, block, ttlMs }: PromptBlock): Hashed {
    const [digestBefore, bytesBefore] =
      typeof before === 'string' ? [before, 0] : [before.digest, before.bytes];
    const text = `${part}\n${bytesOf(block)}`;
    const last = kept[index];
    if (last?.before === digestBefore && last.text === text && last.ttlMs === ttlMs) return last;
    const digest = hash('sha256', `${digestBefore} ${text}`, 'hex');
    const bytes = bytesBefore + Buffer.byteLength(text) - part.length - 1;
    const fresh = { before: digestBefore, text, digest, bytes, ttlMs };
    const state = { ...fresh, key: keyOf(digest), tokens: tokensOfBytes(bytes) };
    if (index < KEPT_BLOCKS) kept[index] = state;
    return state;
  }

  return {
    prefixesOf(params, model, paramsBytes) {
      const total = tokensOfBytes(paramsBytes);
      if (total < model.min_cacheable_tokens || !isMarked(params)) return [];
      const blocks = promptBlocks(params);
      const lastMark = blocks.findLastIndex(({ ttlMs }) => ttlMs > 0);
      const found: Prefix[] = [];
      let before: Hashed | string = JSON.stringify([workspace, model.id]);
      for (const [index, block] of blocks.slice(0, lastMark + 1).entries()) {
        before = hashed(index, before, block);
        const { key, tokens, ttlMs } = before;
        if (tokens < model.min_cacheable_tokens) continue;
        const visited = blocks.slice(index, index + LOOK_BACK_BLOCKS).some((later) => later.ttlMs > 0);
        if (visited) found.push({ key, tokens: Math.min(tokens, total), ttlMs });
      }
      return found.some(({ ttlMs }) => ttlMs > 0) ? found : [];
    },
  };
}
