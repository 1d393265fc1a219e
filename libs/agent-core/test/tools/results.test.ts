import { describe, expect, test } from 'vitest';
import { capResult, toolResultsMessage } from '../../src/tools/results.ts';

describe('capResult', () => {
  test.each([
    ['', 3, ''],
    ['abc', 3, 'abc'],
    ['😀😀😀', 3, '😀😀😀'],
    ['abcd', 3, 'abc... [NOTE: function output was truncated since it exceeded the character limit (4 > 3)]'],
    [
      '😀😀😀',
      2,
      '😀😀... [NOTE: function output was truncated since it exceeded the character limit (3 > 2)]',
    ],
    ['ab', 0, '... [NOTE: function output was truncated since it exceeded the character limit (2 > 0)]'],
  ])('%j cut to %i code points', (text, limit, expected) => {
    expect(capResult(text, limit)).toBe(expected);
  });
});

describe('toolResultsMessage', () => {
  const answered = (tool_use_id: string, ok: boolean, result: string) => ({
    tool_use_id,
    outcome: { ok, result },
  });

  test('holds a result per call in call order, failures marked', () => {
    expect(JSON.parse(toolResultsMessage([answered('b', true, 'one'), answered('a', false, 'two')]))).toEqual(
      [
        { type: 'tool_result', tool_use_id: 'b', content: 'one' },
        { type: 'tool_result', tool_use_id: 'a', content: 'two', is_error: true },
      ],
    );
  });

  test('answers an id once, with its first result', () => {
    expect(JSON.parse(toolResultsMessage([answered('a', true, 'one'), answered('a', false, 'two')]))).toEqual(
      [{ type: 'tool_result', tool_use_id: 'a', content: 'one' }],
    );
  });

  test('holds no NUL and no lone surrogate', () => {
    const text = toolResultsMessage([answered('a', true, 'x\u0000y\ud800z')]);
    expect(JSON.parse(text)).toEqual([{ type: 'tool_result', tool_use_id: 'a', content: 'xy\ufffdz' }]);
  });

  test('gives a failure without text a text, and leaves an empty success empty', () => {
    expect(JSON.parse(toolResultsMessage([answered('a', false, '\u0000'), answered('b', true, '')]))).toEqual(
      [
        {
          type: 'tool_result',
          tool_use_id: 'a',
          content: 'The tool failed without a message.',
          is_error: true,
        },
        { type: 'tool_result', tool_use_id: 'b', content: '' },
      ],
    );
  });
});
