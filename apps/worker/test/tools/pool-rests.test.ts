import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createPoolRests } from '../../src/tools/pool-rests.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test('the rest of a pool doubles with each failed try, up to half a minute, and ends when its host takes a call', () => {
  const rests = createPoolRests();
  const seen = Array.from({ length: 7 }, () => {
    // The calls of one moment are one try.
    for (let call = 0; call < 3; call++) rests.record('http', false);
    const restMs = rests.restMs('http');
    vi.advanceTimersByTime(restMs);
    expect(rests.restMs('http')).toBe(0);
    return restMs;
  });
  expect(seen).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  rests.record('http', false);
  rests.record('http', true);
  expect(rests.restMs('http')).toBe(0);
  rests.record('http', false);
  expect(rests.restMs('http')).toBe(1_000);
});

test('a pool rests alone', () => {
  const rests = createPoolRests();
  rests.record('sandbox', false);
  expect([rests.restMs('sandbox'), rests.restMs('module')]).toEqual([1_000, 0]);
});
