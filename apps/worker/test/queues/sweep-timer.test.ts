import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startSweepTimer } from '../../src/ticks/sweep-timer.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test('sweeps come at the interval, within 10 %', async () => {
  const at: number[] = [];
  const stop = startSweepTimer(1_000, () => void at.push(performance.now()));
  const startedAt = performance.now();
  await vi.advanceTimersByTimeAsync(50_000);
  stop();
  const gaps = at.map((time, index) => time - (at[index - 1] ?? startedAt));
  expect(gaps.length).toBeGreaterThan(40);
  for (const gap of gaps) {
    expect(gap).toBeGreaterThanOrEqual(899);
    expect(gap).toBeLessThanOrEqual(1_101);
  }
  // Workers started together must not sweep together.
  expect(new Set(gaps).size).toBeGreaterThan(5);
});

test('a stopped timer sweeps no more and keeps no handle', async () => {
  const sweep = vi.fn();
  const stop = startSweepTimer(1_000, sweep);
  await vi.advanceTimersByTimeAsync(1_200);
  stop();
  const before = sweep.mock.calls.length;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(sweep).toHaveBeenCalledTimes(before);
  expect(vi.getTimerCount()).toBe(0);
});

test('a sweep may stop its own timer', async () => {
  let runs = 0;
  const stop = startSweepTimer(1_000, () => {
    runs += 1;
    stop();
  });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(runs).toBe(1);
});
