import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  ENDS_BEFORE_ETA,
  noRoomReason,
  PHASES,
  progressOf,
  type ProgressFacts,
  type WaitingCause,
} from '../../src/index.ts';

const T0 = Date.parse('2026-11-20T00:00:00Z');
const at = (seconds: number): Date => new Date(T0 + seconds * 1_000);

/** A batch of 100 runs of which 10 have ended, one every 10 seconds; 60 steps are at the provider. */
const RUNNING: ProgressFacts = {
  now: at(100),
  state: 'running',
  state_reason: null,
  created_at: at(0),
  total: 100,
  accepted: 100,
  queued: 0,
  requires_action: 0,
  retrying: 0,
  tool_calls: 20,
  ended_tool_calls: 14,
  failed_tool_calls: 5,
  unknown_tool_calls: 2,
  ended: 10,
  waits_for_room: false,
  steps_at_provider: 60,
  oldest_sent_at: at(40),
  next_look_at: at(130),
  last_ended_at: at(100),
  ended_in_window: 10,
  window_from: at(0),
  credential_pause: null,
  due_since: null,
  is_any_leased: false,
};
/** The reason that the budget gives for its pause. */
const AT_CAP = noRoomReason(
  {
    cap: { cost_nanousd: null, output_tokens: 5 },
    spent: { cost_nanousd: 0, output_tokens: 0 },
    reserved: { cost_nanousd: 0, output_tokens: 0 },
  },
  { cost_nanousd: 0, output_tokens: 9 },
);
const of = (changes: Partial<ProgressFacts>) => progressOf({ ...RUNNING, ...changes });

describe('the phase follows the state and the places of the runs', () => {
  test.each<readonly [string, Partial<ProgressFacts>]>([
    ['receiving', { state: 'receiving', accepted: 40 }],
    ['running', {}],
    ['waiting_for_provider', { steps_at_provider: 90 }],
    ['waiting_for_provider', { steps_at_provider: 60, waits_for_room: true }],
    ['waiting_for_provider', { steps_at_provider: 20, requires_action: 70 }],
    ['waiting_for_caller', { steps_at_provider: 0, requires_action: 90 }],
    ['waiting_for_caller', { steps_at_provider: 0, requires_action: 80, queued: 10 }],
    ['running', { steps_at_provider: 0, requires_action: 80 }],
    ['paused', { state: 'paused', state_reason: 'by hand' }],
    ['cancelling', { state: 'cancelling' }],
    ['done', { state: 'completed', ended: 100 }],
    ['done', { state: 'failed', ended: 100 }],
    ['done', { state: 'cancelled', ended: 100 }],
    // The results of a batch whose end is still being worked on are not final.
    ['running', { ended: 100, steps_at_provider: 0 }],
  ])('%s: %o', (phase, changes) => {
    expect(of(changes).phase).toBe(phase);
  });
});

describe('a waiting batch says why, and has no ETA', () => {
  const pause = { reason: 'overloaded', until: at(400) };
  test.each<readonly [WaitingCause, Partial<ProgressFacts>]>([
    ['paused', { state: 'paused', state_reason: 'by hand' }],
    ['cap', { state: 'paused', state_reason: AT_CAP, waits_for_room: true }],
    ['paused', { state: 'paused', state_reason: 'Paused by request; resume it.', waits_for_room: true }],
    ['paused', { state: 'paused', state_reason: 'The pilot has ended.', waits_for_room: true }],
    ['credential', { credential_pause: pause }],
    ['retrying', { retrying: 90, steps_at_provider: 0 }],
    ['behind_another_batch', { queued: 90, steps_at_provider: 0 }],
    ['no_worker', { due_since: at(0), now: at(101) }],
    ['no_worker', { due_since: at(0), now: at(101), steps_at_provider: 90 }],
  ])('%s: %o', (cause, changes) => {
    const { waiting_reason, eta } = of(changes);
    expect(waiting_reason?.cause).toBe(cause);
    expect(eta).toBeNull();
  });

  test('a paused credential says until when', () => {
    expect(of({ credential_pause: pause }).waiting_reason).toEqual({
      cause: 'credential',
      message: 'The credential is paused: overloaded',
      until: at(400),
    });
  });

  test.each<readonly [string, Partial<ProgressFacts>]>([
    ['all steps are sent already', { credential_pause: pause, steps_at_provider: 90 }],
    ['some runs are not tried again', { retrying: 89, steps_at_provider: 0 }],
    ['a worker holds a lease', { due_since: at(0), now: at(101), is_any_leased: true }],
    ['the work is due since a moment', { due_since: at(50), now: at(101) }],
  ])('it does not wait if %s', (_, changes) => {
    expect(of(changes).waiting_reason).toBeNull();
  });
});

describe('the ETA', () => {
  test('is a range around the present rate, as of the last end', () => {
    expect(of({}).eta).toEqual({ earliest: at(783), latest: at(1285) });
    expect(of({ now: at(160) }).eta).toEqual({ earliest: at(783), latest: at(1285) });
  });

  test('covers a rate that has changed', () => {
    const { eta } = of({ ended_in_window: 40, ended: 50, created_at: at(-900), window_from: at(0) });
    expect(eta!.earliest.getTime()).toBeLessThan(at(100 + 50 / 0.4).getTime());
    expect(eta!.latest.getTime()).toBeGreaterThan(at(100 + 50 / 0.05).getTime());
  });

  test('does not begin in the past, and ends when its latest time has passed', () => {
    expect(of({ now: at(900) }).eta).toEqual({ earliest: at(900), latest: at(1285) });
    expect(of({ now: at(1285) }).eta).toBeNull();
  });
});

test('each call is in one count', () => {
  expect(of({}).calls).toEqual({ done: 9, failed: 3, unknown: 2, open: 6 });
});

test('the rate is forgotten ten minutes after the last end', () => {
  expect(of({}).runs_per_second).toBe(0.1);
  expect(of({ now: at(700) }).runs_per_second).toBe(0.1);
  expect(of({ now: at(701) }).runs_per_second).toBeNull();
});

const facts: fc.Arbitrary<ProgressFacts> = fc
  .record({
    now: fc.integer({ min: 0, max: 10_000_000 }).map(at),
    state: fc.constantFrom(
      'receiving',
      'running',
      'paused',
      'cancelling',
      'completed',
      'failed',
      'cancelled',
    ),
    state_reason: fc.constantFrom(null, 'why'),
    created_at: fc.integer({ min: -10_000, max: 0 }).map(at),
    accepted: fc.nat(1_000_000),
    more: fc.nat(10),
    queued: fc.nat(1_000),
    requires_action: fc.nat(1_000),
    ended: fc.nat(1_000_000),
    waits_for_room: fc.boolean(),
    steps_at_provider: fc.nat(1_000_000),
    oldest_sent_at: fc.constant(null),
    next_look_at: fc.constant(null),
    last_ended_at: fc.option(fc.integer({ min: 0, max: 1_000_000 }).map(at)),
    ended_in_window: fc.nat(1_000_000),
    window_from: fc.option(fc.integer({ min: 0, max: 1_000_000 }).map(at)),
    credential_pause: fc.option(fc.constant({ reason: 'r', until: null })),
    due_since: fc.option(fc.integer({ min: 0, max: 1_000_000 }).map(at)),
    retrying: fc.nat(100),
    tool_calls: fc.nat(1_000),
    ended_tool_calls: fc.nat(1_000),
    failed_tool_calls: fc.nat(1_000),
    unknown_tool_calls: fc.nat(1_000),
    is_any_leased: fc.boolean(),
  })
  .map(({ more, ...each }) => ({
    ...each,
    total: each.accepted + more,
    ended: Math.min(each.ended, each.accepted),
  }));

test('whatever the rows are, the picture is honest', () => {
  fc.assert(
    fc.property(facts, (given) => {
      const { phase, percent, eta, waiting_reason } = progressOf(given);
      expect(PHASES).toContain(phase);
      expect(percent).toBeGreaterThanOrEqual(0);
      // "100 %" and "done" both mean that the batch has ended, and nothing less.
      expect(percent === 100).toBe(['completed', 'failed', 'cancelled'].includes(given.state));
      expect(phase === 'done').toBe(percent === 100);
      if (given.ended < ENDS_BEFORE_ETA || waiting_reason !== null) expect(eta).toBeNull();
      if (eta !== null) {
        expect(eta.earliest.getTime()).toBeGreaterThanOrEqual(given.now.getTime());
        expect(eta.latest.getTime()).toBeGreaterThanOrEqual(eta.earliest.getTime());
      }
      if (phase === 'done') expect(waiting_reason).toBeNull();
    }),
  );
});
