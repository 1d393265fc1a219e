import { expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  deriveTimeline,
  RUN_STATES,
  type TimedCall,
  type TimedRun,
  type TimedStep,
} from '../../src/index.ts';

const T0 = Date.parse('2026-11-20T00:00:00Z');
const at = (seconds: number): Date => new Date(T0 + seconds * 1_000);

const STEP: TimedStep = {
  ...{ number: 1, attempt: 1, sealed_at: at(10), submitted_at: at(12), provider_ended_at: at(50) },
  ...{ applied_at: at(55), ended_at: at(55), calls: [] },
};
const RUN: TimedRun = {
  state: 'completed',
  created_at: at(0),
  started_at: at(5),
  ended_at: at(100),
  steps: [STEP],
};
const CALL: TimedCall = { awaits: null, verdict: null, started_at: at(60), ended_at: at(60) };

/** The intervals of a run as `kind from-to`, in seconds; nothing after the dash while one lasts. */
const told = (run: Partial<TimedRun>): readonly string[] =>
  deriveTimeline({ ...RUN, ...run }).map(({ kind, from, to }) => {
    const seconds = (moment: Date | null): string =>
      moment === null ? '' : String((moment.getTime() - T0) / 1_000);
    return `${kind} ${seconds(from)}-${seconds(to)}`;
  });
const WHOLE = ['queued 0-5', 'gathering 5-12', 'at_provider 12-50', 'ingest 50-55'];
const OPEN = { ended_at: null };

test.each<readonly [string, Partial<TimedRun>, readonly string[]]>([
  ['one answer', {}, WHOLE],
  ['waits for its conversation', { state: 'queued', started_at: null, ...OPEN, steps: [] }, ['queued 0-']],
  [
    'cancelled while queued',
    { state: 'cancelled', started_at: null, ended_at: at(3), steps: [] },
    ['queued 0-3'],
  ],
  ['ready', { state: 'ready', ...OPEN, steps: [] }, ['queued 0-5', 'gathering 5-']],
  [
    'sealed, not sent',
    {
      ...{ state: 'in_flight', ...OPEN },
      steps: [{ ...STEP, submitted_at: null, provider_ended_at: null, applied_at: null, ended_at: null }],
    },
    ['queued 0-5', 'gathering 5-'],
  ],
  [
    'at the provider',
    {
      ...{ state: 'in_flight', ...OPEN },
      steps: [{ ...STEP, provider_ended_at: null, applied_at: null, ended_at: null }],
    },
    ['queued 0-5', 'gathering 5-12', 'at_provider 12-'],
  ],
  [
    'tools run',
    {
      ...{ state: 'acting', ...OPEN },
      steps: [{ ...STEP, ended_at: null, calls: [CALL, { ...CALL, started_at: null, ended_at: null }] }],
    },
    [...WHOLE, 'tools 55-'],
  ],
  ['tools have ended', { steps: [{ ...STEP, ended_at: at(60), calls: [CALL] }] }, [...WHOLE, 'tools 55-60']],
  [
    'the caller is asked',
    {
      ...{ state: 'requires_action', ...OPEN },
      steps: [
        { ...STEP, ended_at: null, calls: [{ ...CALL, awaits: 'answer', started_at: null, ended_at: null }] },
      ],
    },
    [...WHOLE, 'waiting_for_caller 55-'],
  ],
  [
    'the caller has answered',
    { steps: [{ ...STEP, ended_at: at(60), calls: [{ ...CALL, awaits: 'answer', verdict: 'answered' }] }] },
    [...WHOLE, 'waiting_for_caller 55-60'],
  ],
  [
    'an approved call: the time of the approval is not stored, so the wait is left out',
    {
      steps: [
        {
          ...STEP,
          ended_at: at(70),
          calls: [{ ...CALL, awaits: 'approval', verdict: 'approved', ended_at: at(70) }],
        },
      ],
    },
    [...WHOLE, 'tools 60-70'],
  ],
  [
    'a second step',
    {
      steps: [
        { ...STEP, ended_at: at(60), calls: [CALL] },
        {
          ...STEP,
          ...{ number: 2, sealed_at: at(65), submitted_at: at(66), provider_ended_at: at(90) },
          ...{ applied_at: at(100), ended_at: at(100) },
        },
      ],
    },
    [...WHOLE, 'tools 55-60', 'gathering 60-66', 'at_provider 66-90', 'ingest 90-100'],
  ],
  [
    'a failed attempt, and the next',
    {
      steps: [
        { ...STEP, applied_at: null },
        { ...STEP, attempt: 2, sealed_at: at(80), submitted_at: at(82), provider_ended_at: at(90) },
      ].map((step, place) => (place === 0 ? step : { ...step, applied_at: at(95), ended_at: at(95) })),
    },
    [...WHOLE, 'retry 55-80', 'gathering 80-82', 'at_provider 82-90', 'ingest 90-95'],
  ],
  [
    'waits for the next attempt',
    { state: 'ready', ...OPEN, steps: [{ ...STEP, applied_at: null }] },
    [...WHOLE, 'retry 55-'],
  ],
  [
    'earlier steps left out: the begin of the wait is unknown',
    { steps: [{ ...STEP, number: 900 }] },
    ['queued 0-5', 'at_provider 12-50', 'ingest 50-55'],
  ],
])('%s', (_name, run, intervals) => {
  expect(told(run)).toEqual(intervals);
});

const moment = fc.integer({ min: -10, max: 200 }).map(at);
const maybe = fc.option(moment);
const anyCall: fc.Arbitrary<TimedCall> = fc.record({
  awaits: fc.constantFrom(null, 'approval' as const, 'answer' as const),
  verdict: fc.constantFrom(null, 'approved' as const, 'denied' as const, 'answered' as const),
  started_at: maybe,
  ended_at: maybe,
});
const anyStep: fc.Arbitrary<TimedStep> = fc.record({
  number: fc.integer({ min: 1, max: 3 }),
  attempt: fc.integer({ min: 1, max: 3 }),
  sealed_at: moment,
  submitted_at: maybe,
  provider_ended_at: maybe,
  applied_at: maybe,
  ended_at: maybe,
  calls: fc.array(anyCall, { maxLength: 3 }),
});
const anyRun: fc.Arbitrary<TimedRun> = fc.record({
  state: fc.constantFrom(...RUN_STATES),
  created_at: fc.constant(at(0)),
  started_at: maybe,
  ended_at: fc.option(fc.integer({ min: 0, max: 150 }).map(at)),
  steps: fc.array(anyStep, { maxLength: 6 }),
});

test('whatever times are stored, intervals are in order, within the run, and apart from those of their kind', () => {
  fc.assert(
    fc.property(anyRun, (run) => {
      const intervals = deriveTimeline(run);
      const end = run.ended_at ?? at(1e9);
      for (const [place, { kind, from, to }] of intervals.entries()) {
        expect(from >= run.created_at).toBe(true);
        expect(from < (to ?? end) && (to ?? end) <= end).toBe(true);
        expect(from >= (intervals[place - 1]?.from ?? from)).toBe(true);
        const next = intervals.slice(place + 1).find((later) => later.kind === kind);
        if (next !== undefined) expect(to !== null && to <= next.from).toBe(true);
      }
    }),
  );
});
