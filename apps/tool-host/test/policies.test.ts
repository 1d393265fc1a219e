import { describe, expect, test } from 'vitest';
import { createFifo } from '../src/fifo.ts';
import { createFrameReader, encodeFrame, encodeFrameOf, FRAME_BYTES_MAX } from '../src/frames.ts';
import { describeCrash, withoutWords } from '../src/explain.ts';
import { fastTaskCallsMax, laneOf, learn, newProfile, slowTaskCalls } from '../src/lanes.ts';
import { settleUnfinished, type UnfinishedCall } from '../src/settle.ts';

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

  test('may carry an attachment, which arrives unchanged beside the JSON', () => {
    const received: unknown[] = [];
    const read = createFrameReader((value, attachment) => received.push([value, attachment.toString()]));
    read(Buffer.concat(['{"a":"\\n"}\nä\n{', '[1]', '[2]\n'].map(encodeFrame)));
    expect(received).toEqual([
      [{ a: '\n' }, 'ä\n{'],
      [[1], ''],
      [[2], ''],
    ]);
  });

  test('of a text in parts equal frames of the text', () => {
    const parts = ['{"a":', '"ä😀"', '}\n', '', '{"b":1}'];
    expect(encodeFrameOf(parts).equals(encodeFrame(parts.join('')))).toBe(true);
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

describe('lanes', () => {
  test('a tool is in the slow lane until it is measured as fast, and returns there when it gets slow', () => {
    const profile = newProfile();
    expect(laneOf(profile)).toBe('slow');
    learn(profile, 0.1, 0.1);
    expect(laneOf(profile)).toBe('fast');
    for (let call = 0; call < 20; call += 1) learn(profile, 50, 0.1);
    expect(laneOf(profile)).toBe('slow');
  });

  test('a single hanging call does not mark its tool as slow for more than a few dozen calls', () => {
    const profile = newProfile();
    for (let call = 0; call < 100; call += 1) learn(profile, 0.1, 0.1);
    learn(profile, 600_000, 600_000);
    expect(laneOf(profile)).toBe('slow');
    let calls = 0;
    while (laneOf(profile) === 'slow') {
      learn(profile, 0.1, 0.1);
      calls += 1;
    }
    expect(calls).toBeLessThan(50);
  });

  test('calls that only wait share a slow task, calls that block the thread hardly do', () => {
    expect(slowTaskCalls({ ...newProfile(), samples: 9, durationMs: 500, busyMs: 0.2 }, 16, false)).toBe(16);
    expect(slowTaskCalls({ ...newProfile(), samples: 9, durationMs: 8, busyMs: 8 }, 16, false)).toBe(2);
    expect(slowTaskCalls({ ...newProfile(), samples: 9, durationMs: 500, busyMs: 500 }, 16, false)).toBe(1);
  });

  test('few unmeasured `once` calls share a task', () => {
    expect(slowTaskCalls(newProfile(), 16, false)).toBe(16);
    expect(slowTaskCalls(newProfile(), 16, true)).toBe(4);
    expect(slowTaskCalls(newProfile(), 2, true)).toBe(2);
    expect(slowTaskCalls({ ...newProfile(), samples: 1, durationMs: 500, busyMs: 0.2 }, 16, true)).toBe(16);
  });

  test('a long queue is shared by the free threads in tasks of 50 to 1,000', () => {
    expect(fastTaskCallsMax(10, 2)).toBe(50);
    expect(fastTaskCallsMax(600, 2)).toBe(300);
    expect(fastTaskCallsMax(100_000, 2)).toBe(1_000);
  });
});

describe('calls without an outcome after their thread ended', () => {
  const entered: UnfinishedCall = {
    progress: 'entered',
    side_effects: 'none',
    overdue: false,
    cancelled: false,
    not_imported: false,
    culprit: false,
    leftover: false,
    interruptions: 0,
    neighbours: 0,
    retried: false,
  };

  test('not entered: back into the queue, with any side effects', () => {
    for (const side_effects of ['none', 'idempotent', 'once'] as const) {
      expect(settleUnfinished('crash', { ...entered, progress: 'waiting', side_effects })).toEqual({
        kind: 'again',
      });
    }
  });

  test('not entered ten times: crashed, so that no call loops for ever', () => {
    expect(
      settleUnfinished('no_start', { ...entered, progress: 'waiting', interruptions: 10 }),
    ).toMatchObject({
      kind: 'ended',
      status: 'crashed',
    });
  });

  test('not entered because neighbours ended the thread: back into the queue, a thousand times', () => {
    const waiting: UnfinishedCall = { ...entered, progress: 'waiting', neighbours: 999 };
    expect(settleUnfinished('crash', waiting)).toEqual({ kind: 'again' });
    expect(settleUnfinished('crash', { ...waiting, neighbours: 1_000 })).toMatchObject({ status: 'crashed' });
  });

  test('interrupted by a neighbour: repeated alone, or crashed if they are `once` calls', () => {
    for (const end of ['deadline', 'crash'] as const) {
      expect(settleUnfinished(end, entered)).toEqual({ kind: 'again_alone' });
      expect(settleUnfinished(end, { ...entered, side_effects: 'idempotent' })).toEqual({
        kind: 'again_alone',
      });
      expect(settleUnfinished(end, { ...entered, retried: true })).toMatchObject({ status: 'crashed' });
      expect(settleUnfinished(end, { ...entered, side_effects: 'once' })).toMatchObject({
        status: 'crashed',
      });
    }
  });

  test('interrupted by code of an ended call: repeated alone, up to ten times', () => {
    const struck: UnfinishedCall = { ...entered, leftover: true, retried: true, interruptions: 9 };
    expect(settleUnfinished('crash', struck)).toEqual({ kind: 'again_alone' });
    expect(settleUnfinished('crash', { ...struck, interruptions: 10 })).toMatchObject({ status: 'crashed' });
    expect(settleUnfinished('crash', { ...struck, side_effects: 'once' })).toMatchObject({
      status: 'crashed',
    });
  });

  test('overdue, possibly because of neighbours: repeated alone, except `once` calls', () => {
    const overdue: UnfinishedCall = { ...entered, overdue: true };
    expect(settleUnfinished('deadline', overdue)).toEqual({ kind: 'again_alone' });
    for (const final of [{ retried: true }, { side_effects: 'once' as const }]) {
      expect(settleUnfinished('deadline', { ...overdue, ...final })).toMatchObject({ status: 'timed_out' });
    }
  });

  test('the overdue call timed out, the call that ended the thread crashed', () => {
    expect(settleUnfinished('deadline', { ...entered, overdue: true, culprit: true })).toMatchObject({
      status: 'timed_out',
    });
    expect(settleUnfinished('crash', { ...entered, culprit: true })).toMatchObject({
      status: 'crashed',
      why: 'culprit',
    });
    expect(settleUnfinished('deadline', { ...entered, culprit: true }), 'running is no crime').toEqual({
      kind: 'again_alone',
    });
  });

  test('a finished call with a lost outcome is repeated only if that is harmless', () => {
    expect(settleUnfinished('crash', { ...entered, progress: 'done' })).toEqual({ kind: 'again' });
    expect(settleUnfinished('crash', { ...entered, progress: 'done', side_effects: 'once' })).toMatchObject({
      status: 'crashed',
      why: 'outcome_lost',
    });
  });

  test('cancelled, or with a module that failed to import ten times: ended, with that reason', () => {
    expect(settleUnfinished('crash', { ...entered, cancelled: true })).toMatchObject({ why: 'cancelled' });
    const waiting: UnfinishedCall = { ...entered, progress: 'waiting', not_imported: true };
    for (const end of ['not_imported', 'load_timeout', 'crash'] as const) {
      expect(settleUnfinished(end, { ...waiting, interruptions: 9 })).toEqual({ kind: 'again' });
      expect(settleUnfinished(end, { ...waiting, interruptions: 10 })).toMatchObject({
        status: 'failed',
        why: 'module',
      });
    }
  });
});

test('a queue keeps its order over many rounds of pushing and taking', () => {
  const fifo = createFifo<number>();
  let pushed = 0;
  let taken = 0;
  for (let round = 0; round < 100; round += 1) {
    for (let count = 0; count < 100; count += 1) fifo.push(pushed++);
    for (let count = 0; count < 70; count += 1) expect(fifo.shift()).toBe(taken++);
  }
  expect(fifo.size).toBe(3_000);
  expect(fifo.takeWhere((item) => item % 2 === 0)).toHaveLength(1_500);
  expect(fifo.shift()).toBe(7_001);
});
