import { expect, test } from 'vitest';
import { toUsd } from '../../src/money/to-usd.ts';

test.each([
  [null, null],
  [0, '0.00'],
  [1, '0.000000001'],
  [10_000_000, '0.01'],
  [1_234_500_000, '1.2345'],
  [2_000_000_000, '2.00'],
  [12_300_000_000, '12.30'],
])('%s billionths of a dollar are %s, exact and at least to the cent', (nanoUsd, usd) => {
  expect(toUsd(nanoUsd)).toBe(usd);
});
