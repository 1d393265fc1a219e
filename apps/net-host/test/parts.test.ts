import { describe, expect, test } from 'vitest';
import { createBreakers } from '../src/breaker.ts';
import { retryDelayMs } from '../src/retry-delay.ts';

describe('the breaker of a host', () => {
  const POLICY = { failures_min: 3, rest_ms: 100, rest_ms_max: 250 };

  test('opens after consecutive failures, and lets one call a rest through', () => {
    const breakers = createBreakers(POLICY);
    const fail = (nowMs: number): void => breakers.record('a', false, nowMs);
    fail(0);
    fail(0);
    breakers.record('a', true, 0);
    fail(0);
    fail(0);
    expect(breakers.mayCall('a', 0)).toBe(true);
    fail(1_000);
    // Calls that began earlier fail now.
    fail(1_050);
    expect([1_000, 1_099, 1_100, 1_101].map((nowMs) => breakers.mayCall('a', nowMs))).toEqual([
      false,
      false,
      true,
      false,
    ]);
    fail(1_150);
    expect([1_299, 1_300].map((nowMs) => breakers.mayCall('a', nowMs))).toEqual([false, true]);
    expect([1_549, 1_550].map((nowMs) => breakers.mayCall('a', nowMs))).toEqual([false, true]);
    breakers.record('a', true, 1_560);
    expect(breakers.mayCall('a', 1_560)).toBe(true);
  });

  test('says nothing about other hosts', () => {
    const breakers = createBreakers(POLICY);
    for (let i = 0; i < 3; i++) breakers.record('a', false, 0);
    expect([breakers.mayCall('a', 1), breakers.mayCall('b', 1)]).toEqual([false, true]);
  });

  test('is kept for a bounded number of hosts', () => {
    const breakers = createBreakers({ ...POLICY, failures_min: 1 });
    for (let i = 0; i <= 1_000; i++) breakers.record(`host-${i}`, false, 0);
    expect(['host-0', 'host-1', 'host-1000'].map((name) => breakers.mayCall(name, 1))).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe('the delay of a retry', () => {
  const NOW = Date.parse('2026-11-28T12:00:00Z');
  test.each([
    [1, undefined, 0, 125],
    [1, undefined, 1, 375],
    [2, undefined, 0.5, 500],
    [2, '7', 0.5, 7_000],
    [1, '0', 0.5, 0],
    [1, 'Sat, 28 Nov 2026 12:00:30 GMT', 0.5, 30_000],
    [1, 'Sat, 28 Nov 2026 11:00:00 GMT', 0.5, 0],
    [1, 'soon', 0.5, 250],
  ])('after attempt %i with Retry-After %s and random %d is %i ms', (attempts, header, random, delayMs) => {
    expect(retryDelayMs(attempts, header, NOW, random)).toBe(delayMs);
  });
});
