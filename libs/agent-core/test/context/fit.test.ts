import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  fitRequest,
  isTight,
  type ContextLimits,
  type RequestFacts,
  type RequestSize,
} from '../../src/context/fit.ts';
import { SLIDING_WINDOW_DEFAULT, STATIC_BUFFER_DEFAULT } from '../../src/model/compaction-policy.ts';
import type { TokenCalibration } from '../../src/context/tokens.ts';

/** A token is a byte, so that figures can be read off. */
const BYTES: TokenCalibration = { bytes_per_token: 1, samples: 50 };
const WINDOW: ContextLimits = { window_tokens: 10_000, compaction: SLIDING_WINDOW_DEFAULT };

const said = (seq: number, role: string, bytes: number): RequestFacts['messages'][number] => ({
  seq,
  role,
  content: [{ type: 'text', text: 'x'.repeat(bytes - '[{"type":"text","text":""}]'.length) }],
});

const facts = (sizes: readonly number[], rest: Partial<RequestFacts> = {}): RequestFacts => ({
  messages: sizes.map((bytes, index) => said(index + 1, index % 2 === 0 ? 'user' : 'assistant', bytes)),
  fixed_bytes: 1_000,
  replaced_bytes: 0,
  has_tools: false,
  max_tokens: 2_000,
  thinking_tokens: 0,
  summary_tokens: 500,
  binds_thinking: false,
  is_refused: false,
  ...rest,
});

const fit = (sizes: readonly number[], rest: Partial<RequestFacts> = {}, limits = WINDOW) =>
  fitRequest(facts(sizes, rest), limits, BYTES);

describe('a request', () => {
  test('that fits is sent unchanged', () => {
    expect(fit([1_000, 1_000, 1_000])).toEqual({ kind: 'fits', max_tokens: 2_000 });
  });

  test('beyond nine tenths of the window has its conversation compacted first', () => {
    expect(fit([3_000, 3_000, 1_950])).toEqual({ kind: 'fits', max_tokens: 1_050 });
    expect(fit([3_000, 3_000, 2_001])).toMatchObject({
      kind: 'compact',
      plan: { to_seq: 2, tokens_after: 3_501 },
    });
    expect(fit([3_000, 3_000, 1_500], { has_tools: true }).kind).toBe('compact');
  });

  test('without messages to evict gets a shorter answer, or ends its run', () => {
    expect(fit([7_900])).toEqual({ kind: 'fits', max_tokens: 1_100 });
    expect(fit([8_200], { max_tokens: 800 })).toEqual({ kind: 'fits', max_tokens: 800 });
    expect(fit([8_200])).toMatchObject({ kind: 'overflow' });
  });

  test('that would not fit after a summary either ends its run without paying for a summary', () => {
    expect(fit([3_000, 3_000, 9_500]).kind).toBe('overflow');
  });

  test('does not count the shown summary once it is to be replaced', () => {
    const summarised = {
      fixed_bytes: 4_000,
      replaced_bytes: 2_000,
      summary_tokens: 2_000,
      max_tokens: 1_000,
    };
    const limits = { ...WINDOW, window_tokens: 16_000 };
    expect(fit([1_000, 1_000, 10_300], summarised, limits)).toMatchObject({
      kind: 'compact',
      plan: { to_seq: 2, tokens_after: 14_300 },
    });
  });

  test('counts the thinking of kept messages only where it is sent behind a summary', () => {
    const thought = { type: 'thinking', thinking: 'x'.repeat(3_000), signature: 's' };
    const messages = facts([2_000, 1_000, 1_000, 1_000, 1_000]).messages.map((message) =>
      message.seq === 4 ? { ...message, content: [thought, ...message.content] } : message,
    );
    const after = (binds_thinking: boolean): unknown => {
      const verdict = fitRequest(facts([], { messages, binds_thinking }), WINDOW, BYTES);
      return verdict.kind === 'compact' ? [verdict.plan.to_seq, verdict.plan.tokens_after] : verdict;
    };
    const block = JSON.stringify(thought).length + 1;
    expect(after(true)).toEqual([2, 1_000 + 500 + 3_000]);
    expect(after(false)).toEqual([2, 1_000 + 500 + 3_000 + block]);
  });

  test('beyond the trigger that would not fit after a summary is sent while it fits unchanged', () => {
    expect(fit([100, 100, 7_800], { summary_tokens: 3_000, max_tokens: 800 })).toEqual({
      kind: 'fits',
      max_tokens: 800,
    });
  });

  test('that the provider refused as too long is compacted, or ends its run, and is never sent unchanged', () => {
    expect(fit([1_000, 1_000, 1_000], { is_refused: true })).toMatchObject({
      kind: 'compact',
      plan: { to_seq: 2 },
    });
    for (const sizes of [[], [1_000], [100, 100, 3_000]]) {
      expect(fit(sizes, { is_refused: true })).toMatchObject({
        kind: 'overflow',
        message: expect.stringContaining('found the prompt too long') as string,
      });
    }
  });

  test('of more messages than the static buffer holds is compacted however short it is', () => {
    const buffered = { ...WINDOW, compaction: STATIC_BUFFER_DEFAULT };
    expect(fit(Array<number>(10).fill(50), {}, buffered).kind).toBe('fits');
    expect(fit(Array<number>(11).fill(50), {}, buffered)).toMatchObject({ plan: { to_seq: 8 } });
    expect(fit([3_000, 3_000, 2_500], {}, { ...WINDOW, compaction: { mode: 'none' } }).kind).toBe('overflow');
  });
});

test('every request that is changed is tight', () => {
  const size = fc.integer({ min: 30, max: 4_000 });
  const mode = fc.constantFrom(SLIDING_WINDOW_DEFAULT, STATIC_BUFFER_DEFAULT, { mode: 'none' as const });
  fc.assert(
    fc.property(
      fc.array(size, { maxLength: 14 }),
      fc.nat(4_000),
      fc.boolean(),
      mode,
      (sizes, max, tools, compaction) => {
        const limits = { window_tokens: 10_000, compaction };
        const request = facts(sizes, { max_tokens: max + 1, has_tools: tools });
        const verdict = fitRequest(request, limits, BYTES);
        const seen: RequestSize = {
          bytes: request.fixed_bytes + sizes.reduce((sum, bytes) => sum + bytes, 0),
          images: 0,
          has_tools: tools,
          messages_max: sizes.length,
          max_tokens: max + 1,
        };
        const asItIs = verdict.kind === 'fits' && verdict.max_tokens === request.max_tokens;
        if (!asItIs) expect(isTight(seen, limits, BYTES)).toBe(true);
      },
    ),
  );
});

test('images count by their tokens at the provider', () => {
  const size = { bytes: 1_000, images: 0, has_tools: false, messages_max: 1, max_tokens: 100 };
  expect(isTight(size, WINDOW, BYTES)).toBe(false);
  expect(isTight({ ...size, images: 6 }, WINDOW, BYTES)).toBe(true);
});
