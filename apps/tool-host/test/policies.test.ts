import { describe, expect, test } from 'vitest';
import { createFifo } from '../src/fifo.ts';
import { createFrameReader, encodeFrame, encodeFrameOf, FRAME_BYTES_MAX } from '../src/frames.ts';
import { describeCrash, withoutWords } from '../src/explain.ts';
import { fastTaskCallsMax, laneOf, learn, newProfile, slowTaskCalls } from '../src/lanes.ts';
import { settleUnfinished, type UnfinishedCall } from '../src/settle.ts';

describe('frames', () => {
  test('come out whole and in order however the bytes are cut', () => {
    const values = ['', 'ä😀', { nested: [1, null] }, 'x'.repeat(5_000)];
    const bytes = Buffer.concat(values.map((value) => encodeFrame(JSON.stringify(value))));
    for (const size of [1, 2, 3, 5, 7, 64, 4_999, bytes.length]) {
      const received: unknown[] = [];
      const read = createFrameReader((value) => received.push(value));
      for (let offset = 0; offset < bytes.length; offset += size) read(bytes.subarray(offset, offset + size));
      expect(received).toEqual(values);
    }
  });

  test('may carry an attachment, which comes out as it was, beside the JSON', () => {
    const received: unknown[] = [];
    const read = createFrameReader((value, attachment) => received.push([value, attachment.toString()]));
    read(Buffer.concat(['{"a":"\\n"}\nä\n{', '[1]', '[2]\n'].map(encodeFrame)));
    expect(received).toEqual([
      [{ a: '\n' }, 'ä\n{'],
      [[1], ''],
      [[2], ''],
    ]);
  });

  test('of a text in parts are those of the text', () => {
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

test('whatever a tool throws in an idle thread can be told of', () => {
  for (const thrown of [null, undefined, 0, 'words']) {
    expect(withoutWords(describeCrash(thrown, SETTINGS))).toBe('uncaught error');
  }
});

describe('lanes', () => {
  test('a tool is in the slow lane until it has been measured as fast, and returns there when it gets slow', () => {
    const profile = newProfile();
    expect(laneOf(profile)).toBe('slow');
    learn(profile, 0.1, 0.1);
    expect(laneOf(profile)).toBe('fast');
    for (let call = 0; call < 20; call += 1) learn(profile, 50, 0.1);
    expect(laneOf(profile)).toBe('slow');
  });

  test('one call that hung does not brand its tool for more than a few dozen calls', () => {
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

  test('calls that only wait share a slow task, calls that keep the thread busy hardly do', () => {
    expect(slowTaskCalls({ ...newProfile(), samples: 9, durationMs: 500, busyMs: 0.2 }, 16, false)).toBe(16);
    expect(slowTaskCalls({ ...newProfile(), samples: 9, durationMs: 8, busyMs: 8 }, 16, false)).toBe(2);
    expect(slowTaskCalls({ ...newProfile(), samples: 9, durationMs: 500, busyMs: 500 }, 16, false)).toBe(1);
  });

  test('of calls that nobody has measured few share a task if none may be made again', () => {
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

describe('calls without an outcome when their thread has ended', () => {
  const entered: UnfinishedCall = {
    progress: 'entered',
    side_effects: 'none',
    overdue: false,
    cancelled: false,
    not_imported: false,
    culprit: false,
    stranger: false,
    interruptions: 0,
    neighbours: 0,
    retried: false,
  };

  test('not entered: back into the queue, whatever their side effects', () => {
    for (const side_effects of ['none', 'idempotent', 'once'] as const) {
      expect(settleUnfinished('crash', { ...entered, progress: 'waiting', side_effects })).toEqual({
        kind: 'again',
      });
    }
  });

  test('not entered ten times: crashed, so that nothing circles for ever', () => {
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

  test('interrupted by a neighbour: once more by themselves, or crashed when they may run only once', () => {
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

  test('interrupted by what an ended call has left behind: once more by themselves, up to ten times', () => {
    const struck: UnfinishedCall = { ...entered, stranger: true, retried: true, interruptions: 9 };
    expect(settleUnfinished('crash', struck)).toEqual({ kind: 'again_alone' });
    expect(settleUnfinished('crash', { ...struck, interruptions: 10 })).toMatchObject({ status: 'crashed' });
    expect(settleUnfinished('crash', { ...struck, side_effects: 'once' })).toMatchObject({
      status: 'crashed',
    });
  });

  test('overdue, but not known to have kept the thread itself: once more alone, unless that may do harm', () => {
    const overdue: UnfinishedCall = { ...entered, overdue: true };
    expect(settleUnfinished('deadline', overdue)).toEqual({ kind: 'again_alone' });
    for (const final of [{ retried: true }, { side_effects: 'once' as const }]) {
      expect(settleUnfinished('deadline', { ...overdue, ...final })).toMatchObject({ status: 'timed_out' });
    }
  });

  test('the one whose deadline passed timed out, the one that ended the thread crashed', () => {
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

  test('a finished call whose outcome was lost runs again only where that is harmless', () => {
    expect(settleUnfinished('crash', { ...entered, progress: 'done' })).toEqual({ kind: 'again' });
    expect(settleUnfinished('crash', { ...entered, progress: 'done', side_effects: 'once' })).toMatchObject({
      status: 'crashed',
      why: 'outcome_lost',
    });
  });

  test('given up by its caller, or its module could not be imported ten times: ended, with that reason', () => {
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
