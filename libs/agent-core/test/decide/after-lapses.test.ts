import { expect, test } from 'vitest';
import { LAPSES_MAX, linesAfterLapses } from '../../src/decide/after-lapses.ts';

test('chunks shrink to a tenth with each worker that ends, from the third on, and never to nothing', () => {
  expect(LAPSES_MAX).toBe(3);
  expect([0, 2, 3, 4, 5, 6, 1_000].map((lapses) => linesAfterLapses(lapses, 1_000))).toEqual([
    1_000, 1_000, 100, 10, 1, 1, 1,
  ]);
  expect([2, 3].map((lapses) => linesAfterLapses(lapses, 1))).toEqual([1, 1]);
});
