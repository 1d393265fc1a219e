import { expect, test } from 'vitest';
import { MEMORY_TOOLS } from '../../src/memory/definitions.ts';
import { changedSinceShown, rewritesWholeBlock } from '../../src/memory/changed-since.ts';

test('the built-in tools that rewrite a whole block are known', () => {
  const rewrites = MEMORY_TOOLS.filter(({ name }) => rewritesWholeBlock(name)).map(({ name }) => name);
  expect(rewrites.toSorted()).toEqual(['memory_rethink', 'rethink_memory']);
});

test.each([
  ['person', 'by a person'],
  ['run', 'by another run'],
] as const)('a rewrite that comes after a change by a %s is told so, with the present value', (by, words) => {
  const { ok, result } = changedSinceShown('memory_rethink', { label: 'human', value: 'likes tea' }, by);
  expect(ok).toBe(false);
  expect(result).toContain("'human'");
  expect(result).toContain(words);
  expect(result).toContain('nothing was written');
  expect(result.endsWith('It now holds:\nlikes tea')).toBe(true);
});

test('a long present value is cut, never through a character', () => {
  const value = `${'x'.repeat(3_999)}😀${'y'.repeat(100_000)}`;
  const { result } = changedSinceShown('rethink_memory', { label: 'human', value }, 'run');
  expect(result.length).toBeLessThan(5_000);
  expect(result.isWellFormed()).toBe(true);
  expect(result).toContain('in part');
});
