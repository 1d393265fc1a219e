import type { BatchProgress } from '@nightshift/client';
import { expect, test } from 'vitest';
import { milestoneOf, progressBar, progressLine } from '../src/progress-bar.ts';

const NOW = Date.parse('2026-12-01T02:00:00Z');
const PROGRESS: BatchProgress = {
  phase: 'running',
  waiting_reason: null,
  ended: 2510,
  total: 4110,
  percent: 61,
  runs_per_second: 1.25,
  calls: { done: 0, failed: 0, unknown: 0, open: 0 },
  steps_at_provider: 900,
  oldest_step_sent_at: null,
  next_look_at: null,
  eta: { earliest: '2026-12-01T02:12:00Z', latest: '2026-12-01T02:27:00Z' },
  version: 412,
};

test('a bar shows the phase, the share, the rate, the time left and the cost', () => {
  expect(progressBar({ progress: PROGRESS, cost: '0.1234', now: NOW }, 100)).toBe(
    'running  ██████████████░░░░░░░░░░  61%  2,510/4,110  1.3/s  12 min to 27 min left  $0.12',
  );
});

test('calls are shown while some are open, and when they failed', () => {
  const line = (calls: BatchProgress['calls']): string =>
    progressLine({
      progress: { ...PROGRESS, calls, eta: null, runs_per_second: null },
      cost: undefined,
      now: NOW,
    });
  expect(line({ done: 1_200, failed: 0, unknown: 0, open: 300 })).toBe(
    'running  61%  2,510/4,110  1,200/1,500 calls',
  );
  expect(line({ done: 1, failed: 2, unknown: 1, open: 3 })).toBe(
    'running  61%  2,510/4,110  4/7 calls, 2 failed, 1 unknown',
  );
  expect(line({ done: 5, failed: 1, unknown: 0, open: 0 })).toBe(
    'running  61%  2,510/4,110  6/6 calls, 1 failed',
  );
  expect(line({ done: 5, failed: 0, unknown: 0, open: 0 })).toBe('running  61%  2,510/4,110');
});

test('a bar fits into the terminal', () => {
  for (const columns of [20, 40, 60, 79])
    expect(progressBar({ progress: PROGRESS, cost: '0.1', now: NOW }, columns).length).toBeLessThan(columns);
});

test('a full bar means the end', () => {
  const bar = (percent: number): string =>
    progressBar({ progress: { ...PROGRESS, percent }, cost: undefined, now: NOW }, 100);
  expect(bar(99)).toContain('░');
  expect(bar(100)).not.toContain('░');
});

test('a wait is shown with its reason', () => {
  const paused: BatchProgress = {
    ...PROGRESS,
    phase: 'paused',
    runs_per_second: null,
    eta: null,
    waiting_reason: { cause: 'cap', message: 'At its cap of $20.', until: null },
  };
  expect(progressLine({ progress: paused, cost: '20', now: NOW })).toBe(
    'paused  61%  2,510/4,110  $20.00  At its cap of $20.',
  );
});

test('a log gets a line for each tenth, reason and the end', () => {
  expect(milestoneOf({ ...PROGRESS, percent: 69 })).toBe(milestoneOf(PROGRESS));
  expect(milestoneOf({ ...PROGRESS, percent: 70 })).not.toBe(milestoneOf(PROGRESS));
  expect(milestoneOf({ ...PROGRESS, phase: 'waiting_for_provider' })).toBe(milestoneOf(PROGRESS));
  expect(milestoneOf({ ...PROGRESS, phase: 'done' })).not.toBe(milestoneOf(PROGRESS));
});
