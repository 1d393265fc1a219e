import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { apportionTokens, PROMPT_PARTS } from '../../src/context/prompt-parts.ts';
import { NO_USAGE, promptTokens } from '../../src/model/usage.ts';

const NO_IMAGES = { images: 0, image_bytes: 0 };
const NO_BYTES = { tools: 0, system: 0, memory: 0, summary: 0, messages: 0 };
const tokensOf = (...given: Parameters<typeof apportionTokens>) =>
  apportionTokens(...given).map(({ part, tokens, cache_read_tokens, cache_write_tokens }) => [
    part,
    tokens,
    cache_read_tokens,
    cache_write_tokens,
  ]);

describe('the tokens of a prompt', () => {
  test('go to its parts by their bytes; the cache holds its beginning', () => {
    const bytes = { ...NO_BYTES, tools: 100, system: 200, memory: 100, messages: 100 };
    const usage = { ...NO_USAGE, input_tokens: 10, cache_read_tokens: 50, cache_write_1h_tokens: 40 };
    expect(tokensOf(bytes, NO_IMAGES, usage)).toEqual([
      ['tools', 20, 20, 0],
      ['system', 40, 30, 10],
      ['memory', 20, 0, 20],
      ['summary', 0, 0, 0],
      ['messages', 20, 0, 10],
    ]);
  });

  test('are null without an answer', () => {
    for (const part of apportionTokens({ ...NO_BYTES, messages: 9 }, NO_IMAGES, NO_USAGE))
      expect(part).toMatchObject({ tokens: null, cache_read_tokens: null, cache_write_tokens: null });
  });

  test('of an image are as many as usual, whatever its bytes', () => {
    const bytes = { ...NO_BYTES, system: 1_000, messages: 1_001_000 };
    const media = { images: 1, image_bytes: 1_000_000 };
    const usage = { ...NO_USAGE, input_tokens: 2_600 };
    expect(apportionTokens(bytes, media, usage).map(({ tokens }) => tokens)).toEqual([0, 500, 0, 0, 2_100]);
  });

  test('add up, cached or not', () => {
    const size = fc.nat(1_000_000);
    const figures = fc.record({
      input_tokens: fc.nat(5_000),
      output_tokens: fc.nat(10),
      cache_read_tokens: fc.nat(5_000),
      cache_write_1h_tokens: fc.nat(5_000),
      cache_write_5m_tokens: fc.nat(5_000),
    });
    const sizes = fc.record({ tools: size, system: size, memory: size, summary: size, messages: size });
    fc.assert(
      fc.property(sizes, fc.nat(5), figures, (bytes, images, usage) => {
        fc.pre(promptTokens(usage) > 0);
        const parts = apportionTokens(
          bytes,
          { images, image_bytes: Math.min(images, bytes.messages) },
          usage,
        );
        const sum = (of: 'tokens' | 'cache_read_tokens' | 'cache_write_tokens'): number =>
          parts.reduce((all, part) => all + (part[of] ?? NaN), 0);
        expect(parts.map(({ part }) => part)).toEqual(PROMPT_PARTS);
        expect(parts.every(({ tokens }) => (tokens ?? -1) >= 0)).toBe(true);
        expect(sum('tokens')).toBe(promptTokens(usage));
        expect(sum('cache_read_tokens')).toBe(usage.cache_read_tokens);
        expect(sum('cache_write_tokens')).toBe(usage.cache_write_1h_tokens + usage.cache_write_5m_tokens);
      }),
    );
  });
});
