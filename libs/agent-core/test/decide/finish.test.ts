import { describe, expect, test } from 'vitest';
import { decideFinish, type BatchFacts } from '../../src/decide/finish.ts';
import { BATCH_STATES, type BatchState } from '../../src/machine/batch.ts';

const batch = (rest: Partial<BatchFacts>): BatchFacts => ({
  state: 'running',
  open_runs: 0,
  completed_runs: 0,
  total: 3,
  ...rest,
});

describe('a batch', () => {
  test.each(BATCH_STATES)('that is %s does not end while a run is open', (state) => {
    expect(decideFinish(batch({ state, open_runs: 1, completed_runs: 2 }))).toBeNull();
  });

  test.each<[string, Partial<BatchFacts>, BatchState]>([
    ['with every run completed is completed', { completed_runs: 3 }, 'completed'],
    ['with one completed run among failed ones is completed', { completed_runs: 1 }, 'completed'],
    ['without a completed run is failed', { completed_runs: 0 }, 'failed'],
    ['without any run is completed', { total: 0 }, 'completed'],
    [
      'asked to stop is cancelled, whatever completed',
      { state: 'cancelling', completed_runs: 3 },
      'cancelled',
    ],
    ['asked to stop with nothing completed is cancelled', { state: 'cancelling' }, 'cancelled'],
    [
      'paused with nothing left to send ends all the same',
      { state: 'paused', completed_runs: 3 },
      'completed',
    ],
    ['paused and without a completed run is failed', { state: 'paused' }, 'failed'],
  ])('%s', (_what, facts, expected) => {
    expect(decideFinish(batch(facts))).toBe(expected);
  });

  test.each<BatchState>(['receiving', 'completed', 'cancelled', 'failed'])(
    'that is %s is left as it is',
    (state) => {
      expect(decideFinish(batch({ state, completed_runs: 3 }))).toBeNull();
      expect(decideFinish(batch({ state, total: 0 }))).toBeNull();
    },
  );
});
