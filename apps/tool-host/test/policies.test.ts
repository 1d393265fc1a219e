import { describe, expect, test } from 'vitest';
import { describeCrash, judge, withoutWords, type UnfinishedCall } from '../src/verdict.ts';

const SETTINGS = {
  tools_dirs: [],
  threads: 1,
  thread_memory_mb: 64,
  load_timeout_ms: 1,
};

test('any value thrown in an idle thread can be reported', () => {
  for (const thrown of [null, undefined, 0, 'words']) {
    expect(withoutWords(describeCrash(thrown, SETTINGS))).toBe('uncaught error');
  }
});

describe('calls without an outcome after their thread ended', () => {
  const entered: UnfinishedCall = {
    entered: true,
    once: false,
    overdue: false,
    cancelled: false,
    culprit: false,
    leftover: false,
    repeated: false,
    interruptions: 0,
  };

  test('not entered: back into the queue, with any side effects', () => {
    for (const once of [false, true])
      expect(judge('crash', { ...entered, entered: false, once })).toBe('again');
  });

  test('not entered ten times without a known cause: ended, so that no call loops for ever', () => {
    const waiting: UnfinishedCall = { ...entered, entered: false };
    expect(judge('no_start', { ...waiting, interruptions: 9 })).toBe('again');
    expect(judge('no_start', { ...waiting, interruptions: 10 })).toBe('thread');
  });

  test('interrupted by a neighbour: repeated alone once, `once` calls never', () => {
    for (const end of ['deadline', 'crash'] as const) {
      expect(judge(end, entered)).toBe('alone');
      expect(judge(end, { ...entered, repeated: true })).toBe('neighbour');
      expect(judge(end, { ...entered, once: true })).toBe('neighbour');
    }
  });

  test('interrupted by code of an ended call: repeated alone, up to ten times', () => {
    const struck: UnfinishedCall = { ...entered, leftover: true, repeated: true, interruptions: 9 };
    expect(judge('crash', struck)).toBe('alone');
    expect(judge('crash', { ...struck, interruptions: 10 })).toBe('neighbour');
    expect(judge('crash', { ...struck, once: true })).toBe('neighbour');
  });

  test('overdue, possibly because of neighbours: repeated alone, except `once` calls', () => {
    const overdue: UnfinishedCall = { ...entered, overdue: true };
    expect(judge('deadline', overdue)).toBe('alone');
    for (const final of [{ repeated: true }, { once: true }])
      expect(judge('deadline', { ...overdue, ...final })).toBe('deadline');
  });

  test('the overdue call timed out, the call that ended the thread crashed', () => {
    expect(judge('deadline', { ...entered, overdue: true, culprit: true })).toBe('deadline');
    expect(judge('crash', { ...entered, culprit: true })).toBe('culprit');
    expect(judge('crash', { ...entered, culprit: true, once: true })).toBe('culprit');
    expect(judge('deadline', { ...entered, culprit: true }), 'running is no crime').toBe('alone');
  });

  test('cancelled: ended, with that reason', () => {
    for (const isEntered of [true, false])
      expect(judge('crash', { ...entered, entered: isEntered, cancelled: true })).toBe('cancelled');
  });
});
