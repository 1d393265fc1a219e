import { describe, expect, test } from 'vitest';
import {
  answerLimit,
  inputTokensToReserve,
  NO_MEDIA,
  NO_USAGE,
  reliableBytesPerToken,
  SHIPPED_PRICES,
  sumWorkSamples,
  toWorkStatistics,
  UNKNOWN_MEDIA,
  worstInputTokens,
  type WorkStatistics,
} from '../../src/index.ts';

const work = (answers: number, output_tokens: number): WorkStatistics =>
  toWorkStatistics(
    sumWorkSamples(
      Array.from({ length: answers }, () => ({
        keys: ['k'],
        step_number: 1,
        usage: { ...NO_USAGE, output_tokens },
        ended: true,
      })),
    ),
  );

describe('the limit of an answer', () => {
  const most = { max_tokens: 8_192, thinking_tokens: 0 };

  test('is the maximum without enough answers', () => {
    expect(answerLimit(null, most)).toBe(8_192);
    expect(answerLimit(work(9, 10), most)).toBe(8_192);
  });

  test('follows the answers with a margin, and is neither tiny nor above the maximum', () => {
    expect(answerLimit(work(10, 1_000), most)).toBe(1_536);
    expect(answerLimit(work(10, 1), most)).toBe(256);
    expect(answerLimit(work(10, 8_000), most)).toBe(8_192);
    expect(answerLimit(work(10, 1), { ...most, max_tokens: 50 })).toBe(50);
  });

  test('leaves room behind a fixed budget of thinking', () => {
    expect(answerLimit(work(10, 10), { ...most, thinking_tokens: 4_000 })).toBe(4_256);
  });
});

describe('the tokens to reserve for a prompt', () => {
  const MODEL = 'claude-haiku-4-5';
  const request = { bytes: 40_000, media: NO_MEDIA, window_tokens: 200_000, dense_bytes: 0, has_tools: true };
  const tokensOf = (rest: Partial<typeof request>, least: number | null): number =>
    inputTokensToReserve(SHIPPED_PRICES, MODEL, { ...request, ...rest }, least);

  test('are a token a byte without samples', () => {
    expect(tokensOf({}, null)).toBe(worstInputTokens(SHIPPED_PRICES, MODEL, request));
  });

  test('follow the densest sample with a margin, and count a token a byte outside ASCII', () => {
    expect(tokensOf({}, 4)).toBe(12_500 + 600);
    expect(tokensOf({ has_tools: false }, 4)).toBe(12_500 + 100);
    expect(tokensOf({ dense_bytes: 20_000 }, 4)).toBe(20_000 + 6_250 + 600);
    expect(tokensOf({ dense_bytes: 90_000 }, 4)).toBe(40_000 + 600);
  });

  test('rely on samples only if there are ten', () => {
    expect(reliableBytesPerToken(null)).toBeNull();
    expect(reliableBytesPerToken({ samples: 9, bytes_per_token_min: 4 })).toBeNull();
    expect(reliableBytesPerToken({ samples: 10, bytes_per_token_min: 4 })).toBe(4);
  });

  test('never exceed the bound of a token a byte, and fill the window for content of unknown size', () => {
    expect(tokensOf({}, 1)).toBe(42_000);
    expect(tokensOf({ media: UNKNOWN_MEDIA }, 4)).toBe(200_000);
  });
});
