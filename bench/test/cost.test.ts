import { expect, test } from 'vitest';
import { planIn } from '../../apps/simulator/src/scripts/plan.ts';
import { CELLS, inputOf, memoryOf, systemOf } from '../cost/conversation.ts';
import { costGoals, costTable, readCosts, type CellCost } from '../cost/judge.ts';

const costOf = (steps: number, batch_usd: number, prompt_tokens = 2_000): CellCost => ({
  ...{ hit_rate: 0.9, steps, prompt_tokens, batch_usd },
  ...{ realtime_cached_usd: 1, realtime_plain_usd: 2 },
});

test('a goal is judged by its worst prompt, and only with figures of before', () => {
  const before = [1, 5, 10].flatMap((steps) => [costOf(steps, 1), costOf(steps, 1, 20_000)]);
  const costs = [
    ...[costOf(1, 1.005), costOf(1, 1, 20_000), costOf(5, 0.5), costOf(5, 0.75, 20_000)],
    ...[costOf(10, 0.5), costOf(10, 0.2, 20_000)],
  ];
  expect(costGoals(costs, before).map(({ goal, measured, met }) => [goal, measured, met])).toEqual([
    ['loops of 1: at most 1.01 x the commit before', '1.00 x at worst', true],
    ['loops of 5: at most 0.7 x the commit before', '0.750 x at worst', false],
    ['loops of 10: at most 0.5 x the commit before', '0.500 x at worst', true],
    ['never dearer than cached realtime', '1.00 x at worst', false],
  ]);
  expect(costGoals(costs, []).map(({ met }) => met)).toEqual([null, null, null, false]);
});

test('the table shows each cell beside the same cell of before', () => {
  const { rows } = costTable([costOf(5, 0.5), costOf(5, 0.5, 20_000)], [costOf(5, 1, 20_000)]);
  expect(rows.map((row) => row.slice(4, 6))).toEqual([
    ['', ''],
    ['1.00', '0.500x'],
  ]);
});

test('figures are read from the standard output of an earlier run; another file is refused', () => {
  const line = JSON.stringify({ bench: 'cost', runs: 1, cells: [costOf(1, 1)] });
  expect(readCosts(`Dollars of a run\n\n${line}\n`)).toEqual([costOf(1, 1)]);
  expect(() => readCosts('{"bench":"fleet"}')).toThrow('--cost-before: the file does not end with');
});

test.each(CELLS)(
  'a run of $steps steps over $prompt_tokens tokens plans its calls and fills its prompt',
  (cell) => {
    const turns = planIn(inputOf(cell, 'customer 7'));
    expect(turns).toHaveLength(cell.steps - 1);
    const writes = turns.filter((calls) => calls.some(({ tool }) => tool === 'core_memory_append'));
    expect(writes).toHaveLength(Math.floor(cell.steps / 2));
    const bytes = Buffer.byteLength(systemOf(cell) + memoryOf(cell, 'customer 7'));
    expect(bytes).toBe(cell.prompt_tokens * 4);
  },
);
