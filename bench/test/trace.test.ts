import { expect, test } from 'vitest';
import { mergeCosts, type StatementCost } from '../measure/trace.ts';

test('what several processes sent is one statement, and their costs are added', () => {
  const costs = (calls: number): StatementCost => ({ calls, backend_cpu_ms: 2, rows: 3, sent_chars: 4 });
  const first = [['select 1', costs(1)] as const, ['select 2', costs(10)] as const];
  expect(mergeCosts([first, [['select 1', costs(5)]]])).toEqual([
    ['select 1', { calls: 6, backend_cpu_ms: 4, rows: 6, sent_chars: 8 }],
    ['select 2', costs(10)],
  ]);
  expect(first[0]?.[1].calls).toBe(1);
});
