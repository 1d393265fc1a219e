import { expect, test } from 'vitest';
import { CRASHES_MAX, linesAfterCrashes } from '../../src/decide/after-crashes.ts';

test('chunks shrink to a tenth after three crashes, and never to nothing', () => {
  expect(CRASHES_MAX).toBe(3);
  expect([0, 2, 3, 1_000].map((crashes) => linesAfterCrashes(crashes, 1_000))).toEqual([
    1_000, 1_000, 100, 100,
  ]);
  expect([2, 3].map((crashes) => linesAfterCrashes(crashes, 1))).toEqual([1, 1]);
});
