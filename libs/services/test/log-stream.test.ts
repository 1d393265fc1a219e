import { expect, test, vi } from 'vitest';
import { createLogStream, type LogStream, type LogSystem } from '../src/log-stream.ts';

type Answer = number | string;

/** A disk whose writes the test answers in order, with a number of bytes or an error code. */
function scriptedDisk(): {
  system: LogSystem;
  written: () => string;
  isClosed: () => boolean;
  answer: (answer: Answer) => void;
} {
  let written = '';
  let isClosed = false;
  const open: { bytes: Buffer; done: (error: NodeJS.ErrnoException | null, count: number) => void }[] = [];
  const errorOf = (code: string): NodeJS.ErrnoException =>
    Object.assign(new Error(`${code}: write`), { code });
  return {
    written: () => written,
    isClosed: () => isClosed,
    system: {
      open: () => 1,
      close: () => void (isClosed = true),
      write: (_fd, bytes, done) => void open.push({ bytes, done }),
      writeSync: (_fd, bytes) => {
        written += bytes.toString();
        return bytes.length;
      },
    },
    answer(answer) {
      const write = open.shift();
      if (write === undefined) throw new Error('No write is under way.');
      if (typeof answer === 'string') {
        write.done(errorOf(answer), 0);
        return;
      }
      const taken = write.bytes.subarray(0, answer);
      written += taken.toString();
      write.done(null, taken.length);
    },
  };
}

const ALL = Infinity;

test('lines are written in order, one write at a time, also after partial writes', () => {
  const disk = scriptedDisk();
  const log = createLogStream(disk.system);
  for (const line of ['one\n', 'two\n', 'three\n']) log.write(line);
  disk.answer(2);
  disk.answer(ALL);
  disk.answer(ALL);
  expect(disk.written()).toBe('one\ntwo\nthree\n');
  expect(log.status()).toEqual({ dropped_lines: 0, failing: null });
});

test('a full disk loses no line that fits in memory, and writes resume when there is space', () => {
  vi.useFakeTimers();
  try {
    const disk = scriptedDisk();
    const log = createLogStream(disk.system);
    log.write('one\n');
    disk.answer(1);
    disk.answer('ENOSPC');
    log.write('two\n');
    expect(log.status()).toEqual({ dropped_lines: 0, failing: 'ENOSPC: write' });
    for (let times = 0; times < 20; times++) {
      vi.advanceTimersByTime(100);
      disk.answer('ENOSPC');
    }
    vi.advanceTimersByTime(100);
    disk.answer(ALL);
    disk.answer(ALL);
    expect(disk.written()).toBe('one\ntwo\n');
    expect(log.status()).toEqual({ dropped_lines: 0, failing: null });
  } finally {
    vi.useRealTimers();
  }
});

function writeMany(log: LogStream, count: number): void {
  for (let line = 0; line < count; line++) log.write(`${'x'.repeat(999)}\n`);
}

test('lines beyond the limit are dropped and counted, and a line marks the gap', () => {
  vi.useFakeTimers({ now: 0 });
  try {
    const disk = scriptedDisk();
    const log = createLogStream(disk.system);
    log.write('first\n');
    disk.answer('ENOSPC');
    writeMany(log, 1_500);
    expect(log.status()).toEqual({ dropped_lines: 500, failing: 'ENOSPC: write' });
    vi.advanceTimersByTime(100);
    disk.answer(ALL);
    log.write('after\n');
    disk.answer(ALL);
    disk.answer(ALL);
    const lines = disk.written().trimEnd().split('\n');
    expect([lines.length, lines[0], lines.at(-1)]).toEqual([1_003, 'first', 'after']);
    expect(JSON.parse(lines[1_001] ?? '')).toEqual({
      level: 40,
      time: 100,
      dropped_lines: 500,
      reason: 'ENOSPC: write',
      msg: 'log lines were dropped here',
    });
    expect(log.status()).toEqual({ dropped_lines: 500, failing: null });
  } finally {
    vi.useRealTimers();
  }
});

test('a reader that stops causes dropped lines, not unbounded time or memory', () => {
  vi.useFakeTimers();
  try {
    const disk = scriptedDisk();
    const log = createLogStream(disk.system);
    log.write('first\n');
    disk.answer('EAGAIN');
    expect(log.status().failing).toBe(null);
    writeMany(log, 1_001);
    expect(log.status()).toEqual({
      dropped_lines: 1,
      failing: 'lines come faster than they can be written',
    });
  } finally {
    vi.useRealTimers();
  }
});

test('a line longer than the limit is written when no other line waits', () => {
  const disk = scriptedDisk();
  const log = createLogStream(disk.system);
  log.write('one\n');
  const long = `${'x'.repeat(2_000_000)}\n`;
  log.write(long);
  disk.answer(ALL);
  disk.answer(ALL);
  expect(disk.written()).toBe(`one\n${long}`);
});

test.each(['ENOSPC', 'EAGAIN'])('the final flush gives up on %s and counts the dropped lines', (code) => {
  let tries = 0;
  const log = createLogStream({
    open: () => 1,
    close: () => undefined,
    write: () => undefined,
    writeSync: () => {
      tries += 1;
      throw Object.assign(new Error(code), { code });
    },
  });
  for (const line of ['under way\n', 'two\n', 'three\n']) log.write(line);
  log.flushSync();
  expect(tries).toBe(code === 'ENOSPC' ? 1 : 30);
  expect(log.status().dropped_lines).toBe(2);
});

test('the final flush continues a failed write where it stopped', () => {
  const disk = scriptedDisk();
  const log = createLogStream(disk.system);
  log.write('one\n');
  disk.answer(2);
  disk.answer('ENOSPC');
  log.write('two\n');
  log.flushSync();
  expect(disk.written()).toBe('one\ntwo\n');
});

test('an open that fails is retried; failure and success are each reported once', () => {
  vi.useFakeTimers();
  try {
    const disk = scriptedDisk();
    const told: (string | null)[] = [];
    let isFull = true;
    const open = (): number => {
      if (isFull) throw new Error('ENOSPC: open');
      return 1;
    };
    const log = createLogStream({ ...disk.system, open }, (failing) => told.push(failing));
    log.write('one\n');
    vi.advanceTimersByTime(1_000);
    isFull = false;
    vi.advanceTimersByTime(100);
    disk.answer(ALL);
    expect(disk.written()).toBe('one\n');
    expect(told).toEqual(['ENOSPC: open', null]);
  } finally {
    vi.useRealTimers();
  }
});

test('a file is closed after its last line is written or dropped', () => {
  for (const answers of [[ALL, ALL], [ALL, 'ENOSPC'], ['ENOSPC']] as const) {
    const disk = scriptedDisk();
    const log = createLogStream(disk.system);
    log.write('one\n');
    log.write('two\n');
    log.close();
    for (const answer of answers) {
      expect(disk.isClosed()).toBe(false);
      disk.answer(answer);
    }
    expect(disk.isClosed()).toBe(true);
    const writes = answers.filter((answer) => answer === ALL).length;
    expect([disk.written(), log.status().dropped_lines]).toEqual([
      'one\ntwo\n'.slice(0, writes * 4),
      2 - writes,
    ]);
  }
  const unused = scriptedDisk();
  createLogStream(unused.system).close();
  expect(unused.isClosed()).toBe(true);
});
