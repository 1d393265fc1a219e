import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { batchCostNanoUsd, SHIPPED_PRICES } from '../../src/model/prices.ts';
import {
  countMedia,
  nanoUsdOf,
  NO_MEDIA,
  UNKNOWN_MEDIA,
  reserveNanoUsd,
  worstInputTokens,
  type MediaCount,
} from '../../src/money/reserve.ts';

const anyModel = fc.constantFrom(...SHIPPED_PRICES.models.keys());
const tokens = fc.nat(1_000_000);

describe('the reservation for a request', () => {
  test('takes the dearest column for every prompt token, at the batch price', () => {
    // Haiku 4.5: 2 dollars a million for an hour's cache write, 5 for output; half of it in a batch.
    expect(reserveNanoUsd(SHIPPED_PRICES, 'claude-haiku-4-5', 1_000, 100)).toBe(
      (1_000 * 2_000 + 100 * 5_000) / 2,
    );
    expect(reserveNanoUsd(SHIPPED_PRICES, 'claude-haiku-4-5-20251001', 1_000, 100)).toBe(
      reserveNanoUsd(SHIPPED_PRICES, 'claude-haiku-4-5', 1_000, 100),
    );
  });

  test('is unknown for a model without a price, and never zero', () => {
    expect(reserveNanoUsd(SHIPPED_PRICES, 'gpt', 1, 1)).toBeNull();
    expect(reserveNanoUsd(SHIPPED_PRICES, 'constructor', 1, 1)).toBeNull();
  });

  test('no answer within its tokens costs more, however they are billed', () => {
    fc.assert(
      fc.property(anyModel, tokens, tokens, tokens, tokens, tokens, (model, a, b, c, d, output) => {
        const usage = {
          input_tokens: a,
          cache_write_5m_tokens: b,
          cache_write_1h_tokens: c,
          cache_read_tokens: d,
          output_tokens: output,
        };
        const cost = batchCostNanoUsd(SHIPPED_PRICES, model, usage) ?? expect.fail('no price');
        expect(cost).toBeLessThanOrEqual(reserveNanoUsd(SHIPPED_PRICES, model, a + b + c + d, output) ?? 0);
      }),
    );
  });
});

describe('the maximum prompt tokens of a request', () => {
  const worst = (model: string, bytes: number, media: Partial<MediaCount> = {}, window_tokens = 128_000) =>
    worstInputTokens(SHIPPED_PRICES, model, { bytes, media: { ...NO_MEDIA, ...media }, window_tokens });

  test('are a token a byte and the provider’s additions, within the window of the model', () => {
    expect(worst('claude-haiku-4-5', 10_000)).toBe(12_000);
    expect(worst('claude-haiku-4-5', 250_000)).toBe(200_000);
    expect(worst('gpt', 250_000)).toBe(252_000);
  });

  test('are the window of the agent where the price table has a smaller window: a request may fill it', () => {
    expect(worst('claude-haiku-4-5', 900_000, {}, 1_000_000)).toBe(902_000);
    expect(worst('claude-haiku-4-5', 1_100_000, {}, 1_000_000)).toBe(1_000_000);
    expect(worst('claude-haiku-4-5', 10_000, UNKNOWN_MEDIA, 1_000_000)).toBe(1_000_000);
  });

  test('are the whole window where the provider fetches a document', () => {
    expect(worst('claude-haiku-4-5', 10_000, { remote: 1 })).toBe(200_000);
    expect(worst('gpt', 10_000, { remote: 1 })).toBe(12_000);
  });

  test('are the largest image’s for each image, remote or inline, however many bytes it has', () => {
    const source = { type: 'base64', media_type: 'image/png', data: 'x'.repeat(900_000) };
    const content = [
      { type: 'image', source },
      { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
    ];
    const bytes = JSON.stringify(content).length;
    expect(worst('claude-haiku-4-5', bytes, countMedia(content))).toBe(bytes - 900_000 + 2_000 + 2 * 5_000);
  });

  test('media are counted in lists however long', () => {
    const content = Array.from({ length: 300_000 }, () => ({ type: 'text', text: '' }));
    expect(countMedia([{ type: 'tool_result', tool_use_id: '1', content }])).toEqual(NO_MEDIA);
  });

  test('media are found wherever they stand', () => {
    const image = (type: string) => ({ type: 'image', source: { type } });
    expect(
      countMedia([
        { type: 'image', source: { type: 'base64', data: 'aGFsbG8' } },
        image('url'),
        { type: 'document', source: { type: 'file', file_id: 'x' } },
        { type: 'document', source: { type: 'text' } },
        { type: 'tool_result', tool_use_id: '1', content: [image('url'), { type: 'text', text: 'x' }, 'y'] },
        { type: 'image' },
        { type: 'text', text: 'z' },
      ]),
    ).toEqual({ images: 4, image_bytes: 7, remote: 1 });
  });

  test.each([
    ['url', 1],
    ['file', 1],
    ['text', 0],
    ['base64', 0],
  ])('of a document by %s the provider fetches %i', (type, remote) => {
    expect(countMedia([{ type: 'document', source: { type } }])).toEqual({ ...NO_MEDIA, remote });
  });

  test('bytes are counted for inline images only', () => {
    const image = (source: JsonObject) => ({ type: 'image', source });
    const content = [
      image({ type: 'base64', data: 'abc' }),
      image({ type: 'url', data: 'abcdef' }),
      image({ type: 'base64', data: 5 }),
    ];
    expect(countMedia(content)).toEqual({ images: 3, image_bytes: 3, remote: 0 });
  });

  test('a block of another type is no medium, whatever its source, and invalid blocks are skipped', () => {
    const other = { type: 'search_result', source: { type: 'url', url: 'https://example.com' } };
    const result = { type: 'tool_result', tool_use_id: '1', content: [null, 7, 'x', other] };
    expect(countMedia([other, result])).toEqual(NO_MEDIA);
  });
});

describe('a cap in dollars', () => {
  test.each([
    [1, 1_000_000_000],
    [0.29, 290_000_000],
    [0.1 + 0.2, 300_000_000],
    [1e-9, 1],
    [0.000_000_000_9, 0],
    [0, 0],
  ])('%d', (usd, nano) => {
    expect(nanoUsdOf(usd)).toBe(nano);
  });
});
