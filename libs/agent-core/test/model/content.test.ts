import { describe, expect, test } from 'vitest';
import {
  areEchoable,
  isContentBlock,
  isToolUse,
  toolResult,
  toolUsesOf,
  type ContentBlock,
} from '../../src/model/content.ts';

describe('content blocks', () => {
  test.each([
    [{ type: 'text', text: 'a' }, true],
    [{ type: 'something_new' }, true],
    [{ text: 'a' }, false],
    [{ type: 1 }, false],
    ['text', false],
    [null, false],
    [[], false],
  ])('%j is one: %s', (value, expected) => {
    expect(isContentBlock(value)).toBe(expected);
  });

  test.each<[object, boolean]>([
    [{ id: 'toolu_01-a', name: 'b', input: {} }, true],
    [{ id: 'a', name: 'n'.repeat(200), input: { x: 1 } }, true],
    [{ id: 'a', name: 'n'.repeat(201), input: {} }, false],
    [{ id: 'a', name: '', input: {} }, false],
    [{ id: 'a', name: null, input: {} }, false],
    [{ id: '', name: 'b', input: {} }, false],
    [{ id: 'a b', name: 'b', input: {} }, false],
    [{ id: 7, name: 'b', input: {} }, false],
    [{ name: 'b', input: {} }, false],
    [{ id: 'a', name: 'b', input: '{}' }, false],
    [{ id: 'a', name: 'b', input: [] }, false],
    [{ id: 'a', name: 'b', input: null }, false],
    [{ id: 'a', name: 'b' }, false],
  ])('the call %j can be shown again: %s', (call, expected) => {
    const use = { type: 'tool_use', ...call } as ContentBlock;
    expect(areEchoable([use])).toBe(expected);
    expect(areEchoable([{ type: 'tool_use', id: 'first', name: 'b', input: {} }, use])).toBe(expected);
  });

  test('no calls can be shown again, and calls with equal ids cannot', () => {
    const use: ContentBlock = { type: 'tool_use', id: 'a', name: 'b', input: {} };
    expect(areEchoable([])).toBe(true);
    expect(areEchoable([use, { ...use, name: 'c' }])).toBe(false);
  });

  test.each([
    [{ type: 'tool_use', id: 'a', name: 'b', input: {} }, true],
    [{ type: 'tool_use', id: 'a', name: 'b' }, true],
    [{ type: 'tool_use', name: 'b', input: {} }, false],
    [{ type: 'tool_use', id: 'a', name: null, input: {} }, false],
    [{ type: 'server_tool_use', id: 'a', name: 'b', input: {} }, false],
  ])('%j can be answered: %s', (block, expected) => {
    expect(isToolUse(block as ContentBlock)).toBe(expected);
  });

  test('the calls of an answer keep their order and everything they carry', () => {
    const first = { type: 'tool_use', id: '1', name: 'a', input: { x: 1 }, caller: { type: 'direct' } };
    const second = { type: 'tool_use', id: '2', name: 'b', input: 'odd' };
    expect(toolUsesOf([{ type: 'text', text: 'hm' }, first, { type: 'new_thing' }, second])).toEqual([
      first,
      second,
    ]);
  });
});

test('only a failed tool result is marked as an error', () => {
  expect(toolResult('a', 'fine', false)).toEqual({ type: 'tool_result', tool_use_id: 'a', content: 'fine' });
  expect(toolResult('a', 'no', true)).toEqual({
    type: 'tool_result',
    tool_use_id: 'a',
    content: 'no',
    is_error: true,
  });
});
