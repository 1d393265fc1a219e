import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  planCompaction,
  safeCuts,
  type CompactionFacts,
  type ContextMessage,
} from '../../src/context/compaction.ts';
import { SLIDING_WINDOW_DEFAULT, STATIC_BUFFER_DEFAULT } from '../../src/model/compaction-policy.ts';
import type { ContentBlock } from '../../src/model/content.ts';

/**
 * Makes a conversation from letters.
 * `u` user, `a` assistant text, `t` tool call, `r` its result, `T` and `p` the same with thinking and a paused turn
 * with an open server tool, `q` the rest of it.
 */
function conversation(letters: string, tokens = 100): readonly ContextMessage[] {
  let call = 0;
  const contents: Record<string, () => readonly [string, readonly ContentBlock[]]> = {
    u: () => ['user', [{ type: 'text', text: 'hi' }]],
    a: () => ['assistant', [{ type: 'text', text: 'ok' }]],
    t: () => ['assistant', [{ type: 'tool_use', id: `c${++call}`, name: 'x', input: {} }]],
    T: () => [
      'assistant',
      [
        { type: 'thinking', thinking: '', signature: 's' },
        { type: 'tool_use', id: `c${++call}`, name: 'x', input: {} },
      ],
    ],
    r: () => ['user', [{ type: 'tool_result', tool_use_id: `c${call}`, content: 'ok' }]],
    p: () => ['assistant', [{ type: 'server_tool_use', id: `c${++call}`, name: 'web_search', input: {} }]],
    q: () => ['assistant', [{ type: 'web_search_tool_result', tool_use_id: `c${call}`, content: [] }]],
  };
  return [...letters].map((letter, index) => {
    const [role, content] = contents[letter]?.() ?? ['system', []];
    return { seq: 10 + index, role, content, tokens, tokens_kept: tokens };
  });
}

function plan(
  letters: string,
  policy: Parameters<typeof planCompaction>[1],
  rest: Partial<CompactionFacts> & { tokens?: number } = {},
) {
  return planCompaction(
    {
      messages: conversation(letters, rest.tokens),
      fixed_tokens: 1_000,
      replaced_tokens: 0,
      summary_tokens: 50,
      window_tokens: 100_000,
      answer_tokens: 0,
      is_refused: false,
      ...rest,
    },
    policy,
  );
}

describe('the safe cuts of a conversation', () => {
  test.each<[string, readonly number[]]>([
    ['', []],
    ['u', []],
    ['uaua', [1, 2, 3]],
    ['utrtra', [1, 3, 5]],
    ['upqau', [1, 4]],
    ['upqau'.replace('a', 'u'), [1, 3, 4]],
  ])('%s', (letters, cuts) => {
    expect(safeCuts(conversation(letters))).toEqual(cuts);
  });

  test('no cut separates a result from its call, in any conversation', () => {
    const part = fc.constantFrom('ua', 'utra', 'utrtra', 'uTra', 'upqa', 'u', 'utr');
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), (parts) => {
        const messages = conversation(parts.join(''));
        for (const cut of safeCuts(messages)) {
          const [before, after] = [messages.slice(0, cut), messages.slice(cut)];
          const uses = new Set(before.flatMap(({ content }) => content.map((block) => block['id'])));
          const asked = after.flatMap(({ content }) => content.map((block) => block['tool_use_id']));
          expect(asked.filter((id) => id !== undefined && uses.has(id))).toEqual([]);
        }
      }),
    );
  });
});

describe('the static buffer', () => {
  test('keeps up to ten messages, then the last four from the start of a turn', () => {
    expect(plan('uauauauaua', STATIC_BUFFER_DEFAULT)).toBeNull();
    expect(plan('uauauauauau', STATIC_BUFFER_DEFAULT)).toEqual({
      to_seq: 17,
      tokens_after: 1_000 + 50 + 300,
    });
  });

  test('cuts between two steps where no turn begins late enough', () => {
    expect(plan('uautrtrtrtr', STATIC_BUFFER_DEFAULT)).toMatchObject({ to_seq: 16 });
  });

  test('keeps more than four where no later cut is safe', () => {
    const many = conversation('uauauaut');
    const results = Array.from({ length: 5 }, (_, index): ContextMessage => ({
      seq: 18 + index,
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'c1', content: `${index}` }],
      tokens: 100,
      tokens_kept: 100,
    }));
    expect(plan('', STATIC_BUFFER_DEFAULT, { messages: [...many, ...results] })).toMatchObject({
      to_seq: 16,
    });
  });

  test('is cut further when the rest does not fit', () => {
    const rest = { window_tokens: 2_000, tokens: 300 };
    expect(plan('uauauauauaua', STATIC_BUFFER_DEFAULT, rest)).toMatchObject({ to_seq: 19 });
  });
});

describe('the sliding window', () => {
  test('waits until nine tenths of the window are full', () => {
    expect(plan('uaua', SLIDING_WINDOW_DEFAULT, { window_tokens: 2_000 })).toBeNull();
    expect(plan('uaua', SLIDING_WINDOW_DEFAULT, { window_tokens: 1_500 })).toMatchObject({
      to_seq: 11,
    });
  });

  test('then evicts three tenths, up to the start of a turn', () => {
    expect(plan('uauauauaua', SLIDING_WINDOW_DEFAULT, { window_tokens: 2_100 })).toMatchObject({
      to_seq: 13,
      tokens_after: 1_650,
    });
  });

  test('evicts no more for the thinking of later steps, and counts kept messages as they are sent then', () => {
    const messages = conversation(`${'ua'.repeat(10)}u${'Tr'.repeat(10)}`).map((message) =>
      JSON.stringify(message.content).includes('"thinking"') ? { ...message, tokens_kept: 40 } : message,
    );
    const rest = { messages, window_tokens: 5_500 };
    expect(plan('', SLIDING_WINDOW_DEFAULT, rest)).toMatchObject({
      to_seq: 23,
      tokens_after: 1_000 + 50 + 17 * 100 + 10 * 40,
    });
  });

  test('evicts more where that is not enough', () => {
    expect(plan('uauauauaua', SLIDING_WINDOW_DEFAULT, { window_tokens: 1_500 })).toMatchObject({
      to_seq: 17,
    });
  });

  test('keeps only the summary in the middle of a long step, as the last resort', () => {
    const rest = { window_tokens: 1_400, tokens: 300 };
    expect(plan('utrtr', SLIDING_WINDOW_DEFAULT, rest)).toMatchObject({
      to_seq: 14,
      tokens_after: 1_050,
    });
  });

  test('never evicts the latest question', () => {
    expect(plan('u', SLIDING_WINDOW_DEFAULT, { window_tokens: 1_200 })).toBeNull();
    expect(plan('au', SLIDING_WINDOW_DEFAULT, { window_tokens: 1_300 })).toMatchObject({ to_seq: 10 });
  });

  test('takes the best cut where none fits, and none where none helps', () => {
    expect(plan('uaua', SLIDING_WINDOW_DEFAULT, { window_tokens: 900 })).toMatchObject({ to_seq: 12 });
    expect(plan('uaua', SLIDING_WINDOW_DEFAULT, { window_tokens: 900, summary_tokens: 900 })).toBeNull();
    expect(plan('', SLIDING_WINDOW_DEFAULT, { window_tokens: 900 })).toBeNull();
  });
});

describe('a prompt that the provider refused as too long', () => {
  const refused = (letters: string, rest: object = {}) =>
    plan(letters, SLIDING_WINDOW_DEFAULT, { fixed_tokens: 0, is_refused: true, ...rest });

  test('shrinks to half of its estimate, however large the window is', () => {
    expect(plan('uauau', SLIDING_WINDOW_DEFAULT, { fixed_tokens: 0 })).toBeNull();
    expect(refused('uauau')).toMatchObject({ to_seq: 13, tokens_after: 150 });
  });

  test('comes as near to that as it can, and stays where less than a tenth would be gained', () => {
    expect(refused('uauau', { fixed_tokens: 1_000 })).toMatchObject({ to_seq: 13, tokens_after: 1_150 });
    expect(refused('uauau', { fixed_tokens: 10_000 })).toBeNull();
    expect(refused('u')).toBeNull();
    expect(plan('uauau', { mode: 'none' }, { is_refused: true })).toBeNull();
  });
});

test('without a policy nothing is compacted', () => {
  expect(plan('uauauauauauaua', { mode: 'none' }, { window_tokens: 1_200 })).toBeNull();
});

test('a plan ends at a safe cut, or takes a whole conversation that ends with results', () => {
  const part = fc.constantFrom('ua', 'utra', 'utrtra', 'uTra', 'upqa', 'u', 'utr');
  fc.assert(
    fc.property(
      fc.array(part, { minLength: 1, maxLength: 8 }),
      fc.constantFrom(STATIC_BUFFER_DEFAULT, SLIDING_WINDOW_DEFAULT),
      fc.integer({ min: 1_000, max: 4_000 }),
      (parts, policy, window) => {
        const letters = parts.join('');
        const messages = conversation(letters);
        const made = plan(letters, policy, { window_tokens: window });
        if (made === null) return;
        const cut = made.to_seq - 9;
        if (letters.endsWith('r')) expect([...safeCuts(messages), messages.length]).toContain(cut);
        else expect(safeCuts(messages)).toContain(cut);
        expect(made.tokens_after).toBe(1_050 + 100 * (messages.length - cut));
      },
    ),
  );
});
