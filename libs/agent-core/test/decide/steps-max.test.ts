import { expect, test } from 'vitest';
import { stepsMax } from '../../src/decide/steps-max.ts';

test('a run without tools takes as many steps as it can be asked for an answer', () => {
  expect([1, 3, 10].map((max_steps) => stepsMax({ max_steps, has_tools: false }))).toEqual([1, 3, 4]);
  expect(stepsMax({ max_steps: 10, has_tools: true })).toBe(10);
});
