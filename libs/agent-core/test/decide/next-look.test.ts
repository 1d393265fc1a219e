import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  LOOK_POLICY_DEFAULT,
  lookSpacingMs,
  nextLookMs,
  turnaroundWithin,
  type LookPolicy,
} from '../../src/decide/next-look.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const policy = LOOK_POLICY_DEFAULT;

const turnaround = fc.integer({ min: 0, max: 26 * HOUR });
const turnarounds = fc.array(turnaround, { maxLength: 64 });
const age = fc.integer({ min: -HOUR, max: 30 * HOUR });
const anyPolicy: fc.Arbitrary<LookPolicy> = fc
  .record({
    likely: fc.double({ min: 0.01, max: 0.5, noNaN: true }),
    delay_ms_min: fc.integer({ min: 1, max: 30_000 }),
    wider: fc.integer({ min: 0, max: HOUR }),
    calls_per_minute: fc.integer({ min: 1, max: 60 }),
  })
  .map(({ wider, ...rest }) => ({ ...rest, delay_ms_max: rest.delay_ms_min + wider }));

describe('the share of batches that end within a time', () => {
  test('is the prior without turnarounds: half within 7 minutes, nine in ten within the hour', () => {
    expect(turnaroundWithin([], 7 * MINUTE)).toBeCloseTo(0.5, 6);
    expect(turnaroundWithin([], HOUR)).toBeCloseTo(0.9, 6);
    expect(turnaroundWithin([], 0)).toBe(0);
    expect(turnaroundWithin([], -1)).toBe(0);
  });

  test('follows the turnarounds as they become many', () => {
    const slow = (count: number) => turnaroundWithin(Array<number>(count).fill(2 * HOUR), HOUR);
    expect([0, 1, 8, 64].map((count) => Math.round(slow(count) * 100))).toEqual([90, 60, 18, 3]);
    expect(turnaroundWithin(Array<number>(64).fill(5 * MINUTE), HOUR)).toBeGreaterThan(0.99);
  });

  test('is a probability, and grows with the time', () => {
    fc.assert(
      fc.property(turnarounds, turnaround, turnaround, (seen, one, other) => {
        const [less, more] = [Math.min(one, other), Math.max(one, other)];
        const [first, second] = [turnaroundWithin(seen, less), turnaroundWithin(seen, more)];
        expect(first).toBeGreaterThanOrEqual(0);
        expect(second).toBeLessThanOrEqual(1);
        expect(second - first).toBeGreaterThanOrEqual(-1e-6);
      }),
    );
  });

  test('does not depend on the order of the turnarounds', () => {
    fc.assert(
      fc.property(turnarounds, turnaround, (seen, within) => {
        expect(turnaroundWithin(seen.toReversed(), within)).toBeCloseTo(turnaroundWithin(seen, within), 9);
      }),
    );
  });
});

describe('the next look at a batch', () => {
  test('comes within the bounds, at the first moment at which an end is likely', () => {
    fc.assert(
      fc.property(age, turnarounds, anyPolicy, (ageMs, seen, of) => {
        const delayMs = nextLookMs(ageMs, seen, of);
        expect(delayMs).toBeGreaterThanOrEqual(of.delay_ms_min);
        expect(delayMs).toBeLessThanOrEqual(of.delay_ms_max);
        const from = Math.max(0, ageMs);
        const ended = turnaroundWithin(seen, from);
        if (1 - ended < 1e-5) return;
        const share = (ms: number): number => (turnaroundWithin(seen, from + ms) - ended) / (1 - ended);
        if (delayMs < of.delay_ms_max) expect(share(delayMs)).toBeGreaterThanOrEqual(of.likely);
        if (delayMs > of.delay_ms_min + 200) expect(share(delayMs - 200)).toBeLessThan(of.likely + 0.02);
      }),
    );
  });

  test('waits for batches of five minutes until shortly before their end, then comes often', () => {
    const seen = Array<number>(20).fill(5 * MINUTE);
    const ages = [0];
    while ((ages.at(-1) ?? 0) < 5 * MINUTE) {
      const last = ages.at(-1) ?? 0;
      ages.push(last + Math.max(lookSpacingMs(policy), nextLookMs(last, seen, policy)));
    }
    const end = ages.at(-1) ?? 0;
    expect(end - 5 * MINUTE).toBeLessThanOrEqual(10_000);
    expect(ages.filter((ms) => ms > 0 && ms < 4 * MINUTE)).toEqual([]);
  });

  test('spends few looks on a batch that has been open for a day', () => {
    expect(nextLookMs(30 * HOUR, [], policy)).toBe(policy.delay_ms_max);
    expect(nextLookMs(30 * HOUR, Array<number>(64).fill(5 * MINUTE), policy)).toBe(policy.delay_ms_max);
  });

  test('expects a fresh batch by the prior', () => {
    const delayMs = nextLookMs(0, [], policy);
    expect(delayMs).toBeGreaterThan(20_000);
    expect(delayMs).toBeLessThan(MINUTE);
  });
});

test('six look calls a minute are ten seconds apart', () => {
  expect(lookSpacingMs(policy)).toBe(10_000);
});
