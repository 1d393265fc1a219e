import { promptTokens, type Usage } from '../model/usage.ts';
import { IMAGE_TOKENS } from './tokens.ts';

/** The parts of a prompt, in the order in which the provider reads and caches them. */
export const PROMPT_PARTS = ['tools', 'system', 'memory', 'summary', 'messages'] as const;
export type PromptPart = (typeof PROMPT_PARTS)[number];

/** Tokens of a part of a prompt; null without an answer. */
export interface PartTokens {
  readonly part: PromptPart;
  readonly bytes: number;
  readonly tokens: number | null;
  readonly cache_read_tokens: number | null;
  readonly cache_write_tokens: number | null;
}

/**
 * Apportions the billed prompt tokens to the parts by their bytes; images, which are in the messages, count by their usual
 * tokens. The cache holds beginnings of a prompt: tokens read from it come first, tokens written to it follow.
 */
export function apportionTokens(
  bytes: Readonly<Record<PromptPart, number>>,
  media: { readonly images: number; readonly image_bytes: number },
  usage: Usage,
): readonly PartTokens[] {
  const total = promptTokens(usage);
  const read = usage.cache_read_tokens;
  const written = read + usage.cache_write_5m_tokens + usage.cache_write_1h_tokens;
  const inImages = Math.min(total, media.images * IMAGE_TOKENS);
  const sizes = PROMPT_PARTS.map((part) => bytes[part] - (part === 'messages' ? media.image_bytes : 0));
  const whole = Math.max(
    1,
    sizes.reduce((sum, size) => sum + size, 0),
  );
  let before = 0;
  let from = 0;
  return PROMPT_PARTS.map((part, place): PartTokens => {
    if (total === 0)
      return { part, bytes: bytes[part], tokens: null, cache_read_tokens: null, cache_write_tokens: null };
    before += sizes[place] ?? 0;
    const to = part === 'messages' ? total : Math.round(((total - inImages) * before) / whole);
    const within = (end: number): number => Math.min(to, Math.max(from, end)) - from;
    const tokens = to - from;
    const share = {
      part,
      bytes: bytes[part],
      tokens,
      cache_read_tokens: within(read),
      cache_write_tokens: within(written) - within(read),
    };
    from = to;
    return share;
  });
}
