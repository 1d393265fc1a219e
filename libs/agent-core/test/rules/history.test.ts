import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/base/json.ts';
import type { ContentBlock } from '../../src/model/content.ts';
import { callsOf, historyOf, NO_HISTORY, withCalls, type CallMessage } from '../../src/rules/history.ts';

const use = (id: string, name: string): ContentBlock => ({ type: 'tool_use', id, name, input: { id } });
const result = (id: string, content: Json | undefined, rest = {}): ContentBlock => ({
  type: 'tool_result',
  tool_use_id: id,
  ...(content === undefined ? {} : { content }),
  ...rest,
});
const assistant = (...content: ContentBlock[]): CallMessage => ({ role: 'assistant', content });
const user = (...content: ContentBlock[]): CallMessage => ({ role: 'user', content });
const text = (words: string): ContentBlock => ({ type: 'text', text: words });

describe('the calls of a run', () => {
  const messages = [
    user(text('go')),
    assistant(text('thinking'), use('1', 'a'), use('2', 'b')),
    user(result('1', 'one'), result('2', 'two', { is_error: true })),
    assistant(text('done, or not')),
    user(text('go on')),
    assistant(use('3', 'c')),
  ];

  test('come by answer, each with its result', () => {
    expect(callsOf(messages)).toEqual([
      [
        {
          tool_use_id: '1',
          tool_name: 'a',
          input: { id: '1' },
          result: 'one',
          is_error: false,
          carried_out: true,
        },
        {
          tool_use_id: '2',
          tool_name: 'b',
          input: { id: '2' },
          result: 'two',
          is_error: true,
          carried_out: true,
        },
      ],
      [
        {
          tool_use_id: '3',
          tool_name: 'c',
          input: { id: '3' },
          result: null,
          is_error: false,
          carried_out: true,
        },
      ],
    ]);
  });

  test('refused ones are marked and count for nothing', () => {
    const calls = callsOf(messages, new Set(['2', '3'])).flat();
    expect(calls.map((call) => call.carried_out)).toEqual([true, false, false]);
    expect(historyOf(calls)).toEqual({ calls: ['a'], last_result: 'one' });
  });

  test('a call counts once, however often its id is repeated (B76)', () => {
    const doubled = [assistant(use('1', 'a'), use('1', 'b')), user(result('1', 'x'), result('9', 'y'))];
    expect(historyOf(callsOf(doubled).flat())).toEqual({ calls: ['a'], last_result: 'x' });
  });

  test('a result belongs to the latest call of its id', () => {
    const reused = [
      assistant(use('1', 'a')),
      user(result('1', 'first')),
      assistant(use('1', 'a')),
      user(result('1', 'second')),
    ];
    expect(
      callsOf(reused)
        .flat()
        .map((call) => call.result),
    ).toEqual(['first', 'second']);
  });

  test.each<[string, Json | undefined, string]>([
    ['none', undefined, ''],
    ['null', null, ''],
    ['parts', [{ type: 'text', text: 'a' }, { type: 'image' }, 7], 'a\n{"type":"image"}\n7'],
    ['something else', { odd: true }, '{"odd":true}'],
  ])('a result with %s as content has a text', (_what, content, expected) => {
    expect(callsOf([assistant(use('1', 'a')), user(result('1', content))])[0]?.[0]?.result).toBe(expected);
  });

  test('results without an id and calls without a name are passed over', () => {
    const odd = [assistant({ type: 'tool_use', id: '1' }), user({ type: 'tool_result', content: 'x' })];
    expect(callsOf(odd)).toEqual([]);
  });
});

describe('history', () => {
  const call = (tool_name: string, carried_out = true) => ({
    tool_name,
    result: `of ${tool_name}`,
    carried_out,
  });

  test('begins empty and grows by what was carried out', () => {
    expect(historyOf([])).toEqual(NO_HISTORY);
    const once = withCalls(NO_HISTORY, [call('a'), call('x', false)]);
    expect(once).toEqual({ calls: ['a'], last_result: 'of a' });
    expect(withCalls(once, [call('x', false)])).toBe(once);
    expect(withCalls(once, [call('b'), call('a')])).toEqual({
      calls: ['a', 'b', 'a'],
      last_result: 'of a',
    });
  });
});
