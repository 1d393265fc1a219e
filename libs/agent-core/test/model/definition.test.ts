import { expect, test } from 'vitest';
import { BLOCK_CHAR_LIMIT_DEFAULT } from '../../src/model/block.ts';
import { MAX_OUTPUT_TOKENS_DEFAULT, parseModelHandle } from '../../src/model/definition.ts';

test.each([
  ['anthropic/claude-sonnet-5-5', { provider: 'anthropic', name: 'claude-sonnet-5-5' }],
  ['a/b/c', { provider: 'a', name: 'b/c' }],
  ['claude-sonnet-5-5', null],
  ['/claude', null],
  ['anthropic/', null],
  ['', null],
])('the handle %j names %j', (handle, expected) => {
  expect(parseModelHandle(handle)).toEqual(expected);
});

test('the defaults are Letta’s, or fit every priced model', () => {
  expect(BLOCK_CHAR_LIMIT_DEFAULT).toBe(100_000);
  expect(MAX_OUTPUT_TOKENS_DEFAULT).toBe(8192);
});
