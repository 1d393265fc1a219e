import { expect, test } from 'vitest';
import { decideNoBudget } from '../../src/decide/no-budget.ts';

test('a run stopped by its cap fails as budget_exceeded and names the cap', () => {
  expect(decideNoBudget({ state: 'ready' }, 'The cap is reached.')).toEqual({
    state: 'failed',
    stop_reason: 'budget_exceeded',
    error: { message: 'The cap is reached.' },
  });
});

test('a run that has ended cannot end again', () => {
  expect(() => decideNoBudget({ state: 'completed' }, '')).toThrow();
});
