import { expect, test } from 'vitest';
import { createProviderClock, momentNow, type ProviderClock } from '../../src/provider/provider-clock.ts';

const NOON = Date.parse('2026-11-20T12:00:00Z');

/** A machine with adjustable clocks, and a provider whose clock is `ahead` of the true time. */
function machine(): {
  readonly clock: ProviderClock;
  readonly at: { true_ms: number; monotonic_off: number; wall_off: number; ahead: number };
  ask(tookMs?: number): void;
  errorMs(): number;
} {
  const at = { true_ms: NOON, monotonic_off: -NOON, wall_off: 0, ahead: 0 };
  const now = () => ({ monotonic_ms: at.true_ms + at.monotonic_off, wall_ms: at.true_ms + at.wall_off });
  const clock = createProviderClock(now);
  return {
    clock,
    at,
    ask(tookMs = 100) {
      const begun = now();
      at.true_ms += tookMs / 2;
      const header = new Date(at.true_ms + at.ahead).toUTCString();
      at.true_ms += tookMs / 2;
      clock.note(begun, header);
    },
    errorMs: () => (clock.read()?.now_ms ?? Number.NaN) - (at.true_ms + at.ahead),
  };
}

test('the clock is unknown before the first answer with a date', () => {
  const { clock, ask } = machine();
  expect(clock.read()).toBeNull();
  for (const header of [null, undefined, '', 'soon']) clock.note({ monotonic_ms: 0, wall_ms: 0 }, header);
  expect(clock.read()).toBeNull();
  ask();
  expect(clock.read()).not.toBeNull();
});

test.each([-900_000, 0, 900_000])('a provider %d ms ahead is known within its uncertainty', (ahead) => {
  const { clock, at, ask, errorMs } = machine();
  at.ahead = ahead;
  for (let asked = 0; asked < 5; asked++) {
    at.true_ms += 7_300;
    ask();
    expect(Math.abs(errorMs())).toBeLessThanOrEqual(clock.read()?.uncertainty_ms ?? 0);
    expect(clock.read()?.uncertainty_ms).toBeLessThan(1_500);
  }
  at.true_ms += 60_000;
  expect(clock.read()?.age_ms).toBe(60_000);
});

test('an answer that took minutes does not outweigh a fast one', () => {
  const { clock, ask, errorMs } = machine();
  ask();
  ask(110_000);
  expect(Math.abs(errorMs())).toBeLessThan(1_000);
  expect(clock.read()?.uncertainty_ms).toBeLessThan(1_500);
});

test('one outlier changes nothing, and after a jump the third answer shows the new time', () => {
  const { at, ask, errorMs } = machine();
  for (let asked = 0; asked < 5; asked++) ask();
  at.ahead = 3_600_000;
  ask();
  at.ahead = 0;
  expect(Math.abs(errorMs())).toBeLessThan(1_000);
  at.ahead = -600_000;
  for (let asked = 0; asked < 3; asked++) ask();
  expect(Math.abs(errorMs())).toBeLessThan(1_000);
});

test.each([
  ['a monotonic clock that stopped during a sleep', { monotonic_off: -NOON - 300_000 }],
  ['a wall clock that was set back', { wall_off: -300_000 }],
])('%s makes the provider’s time uncertain, never too early', (_what, change) => {
  const { clock, at, ask, errorMs } = machine();
  ask();
  Object.assign(at, change);
  expect(errorMs()).toBeGreaterThan(-1_000);
  expect(clock.read()?.uncertainty_ms).toBeGreaterThan(299_000);
});

/** Records answers with these offsets and durations, and reads the clock's offset and uncertainty. */
function afterAnswers(...answers: readonly { readonly off: number; readonly took: number }[]) {
  const { clock, at, ask } = machine();
  for (const { off, took } of answers) {
    // Headers have whole seconds and count as their middle, so an answer in the middle of a second has no offset.
    at.true_ms = Math.ceil(at.true_ms / 1_000) * 1_000 + 500 - took / 2;
    at.ahead = off;
    ask(took);
  }
  const read = clock.read();
  return { off: (read?.now_ms ?? Number.NaN) - at.true_ms, uncertainty: read?.uncertainty_ms };
}

test.each([
  ['half the duration and half a second', [{ off: 0, took: 400 }], 0, 700],
  ['also the deviation', [0, 1_000, 3_000].map((off) => ({ off, took: 0 })), 1_000, 1_500],
  [
    'taken from the later of two different offsets',
    [0, 2_000].map((off) => ({ off, took: 0 })),
    2_000,
    2_500,
  ],
  [
    'taken from the fast answers, with a slightly slower one',
    [
      { off: 0, took: 0 },
      { off: 8_000, took: 4_000 },
    ],
    8_000,
    10_500,
  ],
  [
    'taken from the fast answers, without a slow one',
    [
      { off: 0, took: 0 },
      { off: 8_000, took: 4_002 },
    ],
    0,
    500,
  ],
  [
    'taken from the last five answers',
    [9_000, 9_000, 9_000, 0, 0, 0].map((off) => ({ off, took: 0 })),
    0,
    500,
  ],
])('the uncertainty of a read is %s', (_what, answers, off, uncertainty) => {
  expect(afterAnswers(...answers)).toEqual({ off, uncertainty });
});

test.each([
  ['neither clock was set', {}, 60_000],
  ['the monotonic clock stopped', { monotonic_off: -NOON - 30_000 }, 60_000],
  ['the wall clock was set back', { wall_off: -30_000 }, 60_000],
  ['both were set back beyond it', { monotonic_off: -NOON - 90_000, wall_off: -90_000 }, 0],
])('the age of a time is the greater one of both clocks: %s', (_what, change, age_ms) => {
  const { clock, at, ask } = machine();
  ask();
  at.true_ms += 60_000;
  Object.assign(at, change);
  expect(clock.read()?.age_ms).toBe(age_ms);
});

test('the difference of both clocks adds to the uncertainty', () => {
  const { clock, at, ask } = machine();
  ask(0);
  at.wall_off = -300_000;
  expect(clock.read()?.uncertainty_ms).toBe(300_500);
});

test.each([
  ['wall clock', 'wall_off', 0],
  ['monotonic clock', 'monotonic_off', -NOON],
] as const)('a %s that is set between answers adds its deviation to the uncertainty', (_which, off, base) => {
  const { clock, at, ask, errorMs } = machine();
  for (const set of [0, 1_000, 3_000]) {
    at[off] = base + set;
    ask(0);
  }
  // It is two seconds ahead of the other clock, and its offsets deviate by a second from their median.
  expect([errorMs(), clock.read()?.uncertainty_ms]).toEqual([2_500, 500 + 1_000 + 2_000]);
});

test('by default it uses the clocks of this machine', () => {
  const clock = createProviderClock();
  clock.note(momentNow(), new Date().toUTCString());
  expect(Math.abs((clock.read()?.now_ms ?? 0) - Date.now())).toBeLessThan(30_000);
  expect(clock.read()?.uncertainty_ms).toBeLessThan(30_000);
});
