import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  calibrate,
  estimateContentTokens,
  estimateTokens,
  sampledBytesPerToken,
  sizeBeyondWindow,
  TOKEN_CALIBRATION_DEFAULT,
} from '../../src/context/tokens.ts';
import { fitsWindow, type WindowFacts } from '../../src/context/window.ts';

describe('the estimate of tokens', () => {
  test('is the bytes divided by the bytes per token, rounded up', () => {
    expect(estimateTokens(0)).toBe(0);
    expect(estimateTokens(10)).toBe(4);
    expect(estimateTokens(10, { bytes_per_token: 4, samples: 1 })).toBe(3);
  });

  test('counts text in UTF-8, and images by their tokens', () => {
    expect(estimateContentTokens([{ type: 'text', text: 'ä' }])).toBe(
      estimateTokens(Buffer.byteLength('[{"type":"text","text":"ä"}]')),
    );
    const image = { type: 'image', source: { type: 'base64', data: 'x'.repeat(1_000_000) } };
    const nested = { type: 'tool_result', tool_use_id: '1', content: [image] };
    for (const content of [[image], [nested]]) {
      expect(estimateContentTokens(content)).toBeGreaterThan(1_600);
      expect(estimateContentTokens(content)).toBeLessThan(1_700);
    }
  });

  test('learns from answers, and stays within reason', () => {
    const once = calibrate(TOKEN_CALIBRATION_DEFAULT, { bytes: 4_000, tokens: 1_000 });
    expect(once).toEqual({ bytes_per_token: 4, samples: 1 });
    expect(calibrate(once, { bytes: 2_000, tokens: 1_000 })).toEqual({
      bytes_per_token: 3,
      samples: 2,
    });
    expect(calibrate(TOKEN_CALIBRATION_DEFAULT, { bytes: 9e9, tokens: 1_000 })).toEqual({
      bytes_per_token: 8,
      samples: 1,
    });
  });

  test('learns nothing from short requests and from images', () => {
    expect(sampledBytesPerToken({ bytes: 999, tokens: 199 })).toBeNull();
    expect(sampledBytesPerToken({ bytes: 100, tokens: 200 })).toBe(1);
    expect(calibrate(TOKEN_CALIBRATION_DEFAULT, { bytes: 999, tokens: 199 })).toBe(TOKEN_CALIBRATION_DEFAULT);
  });

  test('approaches a steady tokenizer, whatever it was before', () => {
    fc.assert(
      fc.property(fc.double({ min: 1.5, max: 7, noNaN: true }), fc.nat(1_000), (rate, samples) => {
        let calibration = { bytes_per_token: 3, samples };
        for (let i = 0; i < 300; i++) {
          calibration = calibrate(calibration, { bytes: rate * 10_000, tokens: 10_000 });
        }
        expect(calibration.bytes_per_token).toBeCloseTo(rate, 1);
      }),
      { numRuns: 30 },
    );
  });
});

describe('whether a request fits the window', () => {
  const facts: WindowFacts = {
    input_tokens: 1_000,
    max_tokens: 8_000,
    thinking_tokens: 0,
    window_tokens: 100_000,
  };
  const verdict = (rest: Partial<WindowFacts>) => fitsWindow({ ...facts, ...rest });

  test('it does', () => {
    expect(verdict({})).toEqual({ kind: 'fits', max_tokens: 8_000 });
    expect(verdict({ input_tokens: 92_000 })).toEqual({ kind: 'fits', max_tokens: 8_000 });
  });

  test('it gets a shorter answer where the window leaves no more', () => {
    expect(verdict({ input_tokens: 95_000 })).toEqual({ kind: 'fits', max_tokens: 5_000 });
    expect(verdict({ input_tokens: 99_900, max_tokens: 100 })).toEqual({ kind: 'fits', max_tokens: 100 });
  });

  test('without room for an answer its run ends with the reason', () => {
    expect(verdict({ input_tokens: 99_500 })).toMatchObject({
      kind: 'overflow',
      message: expect.stringContaining('about 99500 tokens long, the context window holds 100000'),
    });
  });

  test('thinking needs room beside the answer', () => {
    expect(verdict({ input_tokens: 96_000, thinking_tokens: 4_000 }).kind).toBe('overflow');
    expect(verdict({ input_tokens: 94_500, thinking_tokens: 4_000 })).toEqual({
      kind: 'fits',
      max_tokens: 5_500,
    });
  });

  test('a fitting request never exceeds the window', () => {
    const tokens = fc.integer({ min: 1, max: 300_000 });
    fc.assert(
      fc.property(
        tokens,
        tokens,
        tokens,
        fc.nat(20_000),
        (input_tokens, max_tokens, window_tokens, thinking_tokens) => {
          const seen = fitsWindow({ input_tokens, max_tokens, window_tokens, thinking_tokens });
          if (seen.kind !== 'fits') return;
          expect(seen.max_tokens).toBeGreaterThan(Math.min(thinking_tokens, max_tokens - 1));
          expect(seen.max_tokens).toBeLessThanOrEqual(max_tokens);
          expect(input_tokens + seen.max_tokens).toBeLessThanOrEqual(window_tokens);
        },
      ),
    );
  });
});

describe('the size of a message beyond the window', () => {
  test('is found only where every calibration finds more tokens than the window has', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 400 }),
        fc.integer({ min: 1, max: 200 }),
        fc.double({ min: 1, max: 8, noNaN: true }),
        (text, window, bytes_per_token) => {
          const content = [{ type: 'text', text }];
          const size = sizeBeyondWindow(content, window);
          if (size === null) {
            expect(estimateContentTokens(content, { bytes_per_token: 8, samples: 0 })).toBeLessThanOrEqual(
              window,
            );
            return;
          }
          expect(size.bytes).toBe(Buffer.byteLength(JSON.stringify(content)));
          expect(size.tokens).toBeGreaterThan(window);
          expect(estimateContentTokens(content, { bytes_per_token, samples: 0 })).toBeGreaterThanOrEqual(
            size.tokens,
          );
        },
      ),
    );
  });

  test('does not count the bytes of images', () => {
    const image = { type: 'image', source: { type: 'base64', data: 'x'.repeat(100_000) } };
    expect(sizeBeyondWindow([image], 2_000)).toBeNull();
    expect(sizeBeyondWindow([image], 1_000)?.tokens).toBeGreaterThan(1_600);
  });
});
