import { describe, expect, test } from 'vitest';
import { createFrameReader, encodeFrame, FRAME_BYTES_MAX } from '../src/frames.ts';
import { describeCrash, withoutWords } from '../src/explain.ts';
import { judge, type UnfinishedCall } from '../src/verdict.ts';

describe('frames', () => {
  test('are complete and in order however the bytes are cut', () => {
    const values = ['', 'ä😀', { nested: [1, null] }, 'x'.repeat(5_000)];
    const bytes = Buffer.concat(values.map((value) => encodeFrame(JSON.stringify(value))));
    for (const size of [1, 2, 3, 5, 7, 64, 4_999, bytes.length]) {
      const received: unknown[] = [];
      const read = createFrameReader((value) => received.push(value));
      for (let offset = 0; offset < bytes.length; offset += size) read(bytes.subarray(offset, offset + size));
      expect(received).toEqual(values);
    }
  });

  test('over the cap are neither written nor read', () => {
    const header = Buffer.alloc(4);
    header.writeUInt32BE(FRAME_BYTES_MAX + 1);
    expect(() => createFrameReader(() => {})(header)).toThrow(RangeError);
    expect(() => encodeFrame('x'.repeat(FRAME_BYTES_MAX + 1))).toThrow(RangeError);
  });
});

const SETTINGS = {
  tools_dirs: [],
  threads: 1,
  calls_in_flight_per_thread: 1,
  thread_memory_mb: 64,
  thread_idle_ms: 1,
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
