import { describe, expect, test } from 'vitest';
import { estimateTokens } from '../../src/context/tokens.ts';
import {
  SUMMARY_LIMITS_DEFAULT,
  summaryExtra,
  summaryLimits,
  summaryMaxTokens,
  summaryMessage,
  summaryOf,
  summaryRequest,
  tokensToReserve,
  type TranscriptMessage,
} from '../../src/context/summary.ts';

function promptOf(messages: readonly TranscriptMessage[], previous: string | null = null, limits = {}) {
  const request = summaryRequest(messages, previous, { ...SUMMARY_LIMITS_DEFAULT, ...limits });
  const sent = JSON.parse(request.messages_json) as { role: string; content: { text: string }[] }[];
  expect(sent).toHaveLength(1);
  expect(sent[0]?.role).toBe('user');
  return sent[0]?.content[0]?.text ?? '';
}

const messages: readonly TranscriptMessage[] = [
  {
    role: 'user',
    content: [
      { type: 'text', text: 'Find tea' },
      { type: 'image', source: {} },
    ],
  },
  {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'secret', signature: 's' },
      { type: 'redacted_thinking', data: 'secret' },
      { type: 'text', text: 'Looking' },
      { type: 'tool_use', id: '1', name: 'shop', input: { q: 'tea' } },
      { type: 'tool_use', id: '2', name: 'shop' },
    ],
  },
  {
    role: 'user',
    content: [
      { type: 'tool_result', tool_use_id: '1', content: 'green' },
      { type: 'tool_result', tool_use_id: '2', content: 'closed', is_error: true },
      { type: 'tool_result', tool_use_id: '9', content: [{ type: 'text', text: 'a' }, { type: 'image' }, 7] },
      { type: 'tool_result', tool_use_id: '8' },
      { type: 'tool_result', tool_use_id: '7', content: { odd: 1 } },
    ],
  },
  { role: 'assistant', content: [{ type: 'web_search_tool_result', tool_use_id: '3' }, { type: 'text' }] },
];

describe('a summary request', () => {
  test('shows texts and calls, without thinking', () => {
    expect(promptOf(messages)).toBe(
      '<transcript>\n' +
        [
          'user: Find tea',
          'user: [image]',
          'assistant: Looking',
          'assistant calls shop: {"q":"tea"}',
          'assistant calls shop: {}',
          'shop answers: green',
          'shop fails: closed',
          'a tool answers: a\n[image]\n7',
          'a tool answers: ',
          'a tool answers: {"odd":1}',
          'assistant: [web_search_tool_result] {"type":"web_search_tool_result","tool_use_id":"3"}',
          'assistant: ',
        ].join('\n\n') +
        '\n</transcript>',
    );
  });

  test('includes the earlier summary', () => {
    expect(promptOf([], 'They like tea.')).toBe(
      '<earlier_summary>\nThey like tea.\n</earlier_summary>\n\n<transcript>\n\n</transcript>',
    );
  });

  test('never changes, and asks for the length of its limits', () => {
    expect(summaryRequest(messages, 'x')).toEqual(summaryRequest(messages, 'x'));
    expect(summaryRequest(messages, null).system).toMatch(/in at most 1024 words\.$/);
    expect(summaryRequest(messages, null).system).toContain('summary');
  });

  test('asks for less where the window is small, and has room for it and for unavoidable thinking', () => {
    const { system } = summaryRequest(messages, null, summaryLimits(4_400));
    expect(system).toMatch(/in at most 275 words\.$/);
    expect(summaryMaxTokens('claude-haiku-4-5', 0)).toBe(2_048);
    expect(summaryMaxTokens('claude-opus-5-5', 0)).toBe(2_048 + 8_192);
    expect(summaryMaxTokens('claude-opus-5-5', 1)).toBe(2 * (2_048 + 8_192));
  });

  test('has the effort of its agent, and no other setting of it', () => {
    const thinking = { type: 'adaptive' };
    const format = { type: 'json_schema', schema: {} };
    expect(summaryExtra({ thinking, output_config: { effort: 'low', format } })).toEqual({
      output_config: { effort: 'low' },
    });
    for (const extra of [{}, { thinking }, { output_config: { format } }, { output_config: 'low' }])
      expect(summaryExtra(extra)).toEqual({});
  });

  test('cuts long results and the middle of a long transcript, and says how much', () => {
    const long: TranscriptMessage = {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: '1', content: `a${'x'.repeat(98)}z` }],
    };
    expect(promptOf([long], null, { result_chars: 10 })).toContain(
      'axxxx\n[… 90 characters left out …]\nxxxxz',
    );
    expect(promptOf([long], null, { transcript_chars: 20 })).toMatch(
      /^<transcript>\na tool ans\n\[… \d+ char/,
    );
  });

  test.each([
    ['Chinese', '记忆系统必须保存每一位客户的重要事实。'],
    ['emoji', '😀👩‍👩‍👧‍👦'],
    ['Cyrillic', 'Память '],
    ['quotes and controls', '"\\\u0001\n'],
    ['English', 'All night long. '],
  ])('fits the window with its answer, whatever its characters take: %s', (_name, words) => {
    const said = (chars: number) => words.repeat(Math.ceil(chars / words.length));
    const long: TranscriptMessage = { role: 'user', content: [{ type: 'text', text: said(1_000_000) }] };
    for (const window of [4_400, 8_000, 32_000, 128_000, 200_000, 1_000_000]) {
      for (const answer of [2_048, 10_240, 20_480]) {
        const limits = summaryLimits(window, answer);
        const { system, messages_json } = summaryRequest([long], said(50_000), limits);
        const tokens = estimateTokens(Buffer.byteLength(JSON.stringify(system) + messages_json));
        expect(tokens + Math.min(answer, window / 2)).toBeLessThan(Math.min(window, 200_000));
        const [, earlier = '', transcript = ''] =
          /^<earlier_summary>\n(.*)\n<\/earlier_summary>\n\n<transcript>\n(.*)\n<\/transcript>$/s.exec(
            (JSON.parse(messages_json) as { content: { text: string }[] }[])[0]?.content[0]?.text ?? '',
          ) ?? [];
        for (const text of [earlier, transcript]) {
          expect(text).not.toContain('\ufffd');
          const [head = '', left, tail = ''] = text.split(/\n\[… (\d+) characters left out …\]\n/);
          const whole = text === transcript ? `user: ${said(1_000_000)}` : said(50_000);
          expect(whole.startsWith(head) && whole.endsWith(tail)).toBe(true);
          expect(head.length + Number(left ?? 0) + tail.length).toBe(whole.length);
        }
      }
    }
  });

  test('leaves out nothing more of plain text where the window is large', () => {
    const text = 'All night long, "they" say.\n'.repeat(10_000);
    const long: TranscriptMessage = { role: 'user', content: [{ type: 'text', text }] };
    const earlier = 'x'.repeat(50_000);
    const whole = summaryRequest([long], earlier, SUMMARY_LIMITS_DEFAULT);
    for (const window of [128_000, 200_000, 1_000_000])
      expect(summaryRequest([long], earlier, summaryLimits(window, 10_240))).toEqual(whole);
    expect(JSON.stringify(whole)).toContain(`[… ${text.length + 6 - 200_000} characters left out …]`);
  });

  test('a transcript cannot close its element, and lone surrogates are replaced', () => {
    const text = promptOf([{ role: 'user', content: [{ type: 'text', text: '</transcript> \ud800' }] }]);
    expect(text).toBe('<transcript>\nuser: <\\/transcript> \ufffd\n</transcript>');
    expect(promptOf([], '</earlier_summary>')).toContain('<\\/earlier_summary>');
  });
});

describe('a summary', () => {
  test('is the text of the answer', () => {
    expect(
      summaryOf([{ type: 'thinking' }, { type: 'text', text: ' a ' }, { type: 'text', text: 'b' }]),
    ).toBe('a \nb');
    expect(summaryOf([{ type: 'text', text: ' ' }])).toBeNull();
    expect(summaryOf([{ type: 'text' }])).toBeNull();
    expect(summaryOf([{ type: 'text', text: 'x'.repeat(60_000) }])).toHaveLength(50_000);
  });

  test('stands before the conversation as a system alert that counts hidden messages', () => {
    const { role, content } = JSON.parse(summaryMessage('They like tea.', 12)) as {
      role: string;
      content: { type: string; text: string }[];
    };
    expect(role).toBe('user');
    expect(JSON.parse(content[0]?.text ?? '')).toEqual({
      type: 'system_alert',
      message:
        '12 earlier messages are no longer shown. This is a summary of what was said until then:\nThey like tea.',
    });
    expect(summaryMessage('x', 1)).toContain('1 earlier message is');
  });
});

test.each([
  ['a step that stays as it is', 100, 0, 50, 100],
  ['a summary where the run has no cap', 100, 10_240, Infinity, 10_240],
  ['a summary that the cap leaves room for in part', 100, 10_240, 6_000, 6_000],
  ['a summary without room under the cap, whose run ends for that', 100, 10_240, 900, 2_048],
  ['answers that are longer than a summary', 16_000, 10_240, Infinity, 16_000],
])('reserves for %s', (_what, maxTokens, summaryMax, room, reserved) => {
  expect(tokensToReserve(maxTokens, summaryMax, room)).toBe(reserved);
});
