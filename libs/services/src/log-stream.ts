import { closeSync, openSync, write, writeSync } from 'node:fs';

/** Characters of waiting lines; further lines are dropped. */
const WAITING_CHARS_MAX = 1_000_000;
/** Pause before a failed write is retried. Unit: ms. */
const RETRY_MS = 100;
/** Pause between two tries of {@link LogStream.flushSync} on a full pipe (ms), and the number of tries without progress. */
const FLUSH_PAUSE_MS = 10;
const FLUSH_TRIES_MAX = 30;

export interface LogStatus {
  /** Lines dropped since the process started. */
  readonly dropped_lines: number;
  /** The reason why writes fail at present; null while they succeed. */
  readonly failing: string | null;
}

/** The answer to a liveness check. */
export interface Liveness {
  readonly status: 'ok';
  /** Sentences about failing parts that do not stop the process. */
  readonly degraded: string[];
  readonly log_lines_dropped: number;
}

/** Answers a liveness check from the state of the process's log. */
export function liveness({ dropped_lines, failing }: LogStatus): Liveness {
  const degraded = failing === null ? [] : [`The log cannot be written: ${failing}. Work goes on.`];
  return { status: 'ok', degraded, log_lines_dropped: dropped_lines };
}

/** Where a process writes its log. */
export interface LogStream {
  /** Takes whole lines. Never throws and never blocks: excess lines are dropped and counted. */
  write(lines: string): void;
  /** Writes the waiting lines before the process exits. Gives up at the first error, and on a pipe that stays full. */
  flushSync(): void;
  /** Closes the file once the waiting lines are written or dropped. */
  close(): void;
  status(): LogStatus;
}

/** The system calls of a log, replaced in tests. */
export interface LogSystem {
  /** The file descriptor; called before each write, and may throw. */
  open(): number;
  write(
    fd: number,
    bytes: Buffer,
    done: (error: NodeJS.ErrnoException | null, written: number) => void,
  ): void;
  writeSync(fd: number, bytes: Buffer): number;
  close(): void;
}

interface State {
  readonly system: LogSystem;
  readonly onChange: (failing: string | null) => void;
  waiting: string[];
  waitingChars: number;
  /** The part of the current write that the system has not accepted yet. */
  rest: Buffer;
  phase: 'idle' | 'writing' | 'pausing';
  isClosing: boolean;
  failing: string | null;
  dropped: number;
  /** Dropped lines that no line of the log mentions yet. */
  droppedUnreported: number;
}

/**
 * Writes lines to a file descriptor, one write at a time.
 *
 * A failed write (a full disk, a reader that is gone) is retried until it succeeds. Meanwhile lines wait, and are dropped
 * beyond {@link WAITING_CHARS_MAX} characters; a line of level 40 marks the gap. `onChange` gets the reason when writes
 * begin to fail, and null when they succeed again.
 */
export function createLogStream(
  system: LogSystem,
  onChange: (failing: string | null) => void = () => undefined,
): LogStream {
  const state: State = {
    system,
    onChange,
    waiting: [],
    waitingChars: 0,
    rest: Buffer.alloc(0),
    phase: 'idle',
    isClosing: false,
    failing: null,
    dropped: 0,
    droppedUnreported: 0,
  };
  return {
    write(lines) {
      if (state.waitingChars > 0 && state.waitingChars + lines.length > WAITING_CHARS_MAX) {
        drop(state, lines, 'lines come faster than they can be written');
        return;
      }
      state.waiting.push(lines);
      state.waitingChars += lines.length;
      if (state.phase === 'idle') writeNext(state);
    },
    flushSync: () => flushSync(state),
    close() {
      state.isClosing = true;
      if (state.phase === 'idle') system.close();
    },
    status: () => ({ dropped_lines: state.dropped, failing: state.failing }),
  };
}

function writeNext(state: State): void {
  const { system } = state;
  if (state.rest.length === 0) state.rest = takeWaiting(state);
  if (state.rest.length === 0) {
    state.phase = 'idle';
    if (state.isClosing) system.close();
    return;
  }
  state.phase = 'writing';
  try {
    system.write(system.open(), state.rest, (error, written) => {
      if (error !== null) {
        retryLater(state, error);
        return;
      }
      reportDropped(state);
      setFailing(state, null);
      state.rest = state.rest.subarray(written);
      writeNext(state);
    });
  } catch (error) {
    retryLater(state, error as NodeJS.ErrnoException);
  }
}

function retryLater(state: State, { code, message }: NodeJS.ErrnoException): void {
  // A full pipe is no failure: its reader is slow.
  if (code !== 'EAGAIN') setFailing(state, message);
  if (state.isClosing) {
    drop(state, Buffer.concat([state.rest, takeWaiting(state)]).toString(), message);
    state.system.close();
    return;
  }
  state.phase = 'pausing';
  setTimeout(() => writeNext(state), RETRY_MS).unref();
}

function flushSync(state: State): void {
  const { system } = state;
  // An asynchronous write under way completes before the process ends.
  let left = state.phase === 'writing' ? takeWaiting(state) : Buffer.concat([state.rest, takeWaiting(state)]);
  if (state.phase !== 'writing') state.rest = Buffer.alloc(0);
  for (let tries = 0; left.length > 0 && tries < FLUSH_TRIES_MAX; tries++) {
    try {
      left = left.subarray(system.writeSync(system.open(), left));
      tries = 0;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') break;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FLUSH_PAUSE_MS);
    }
  }
  if (left.length > 0) drop(state, left.toString(), 'lines could not be written at once');
}

function takeWaiting(state: State): Buffer {
  const taken = Buffer.from(state.waiting.join(''));
  state.waiting = [];
  state.waitingChars = 0;
  return taken;
}

function drop(state: State, lines: string, reason: string): void {
  const count = lines.split('\n').length - 1;
  state.dropped += count;
  state.droppedUnreported += count;
  if (state.failing === null) setFailing(state, reason);
}

function reportDropped(state: State): void {
  if (state.droppedUnreported === 0) return;
  const line = { level: 40, time: Date.now(), dropped_lines: state.droppedUnreported, reason: state.failing };
  state.waiting.push(`${JSON.stringify({ ...line, msg: 'log lines were dropped here' })}\n`);
  state.droppedUnreported = 0;
}

function setFailing(state: State, reason: string | null): void {
  const hasChanged = (state.failing === null) !== (reason === null);
  state.failing = reason;
  if (hasChanged) state.onChange(reason);
}

/** Opens the log of this process on standard output. Waiting lines are written at process exit. */
export function openProcessLog(): LogStream {
  const { fd } = process.stdout;
  const log = createLogStream({ open: () => fd, write, writeSync, close: () => undefined });
  process.on('exit', () => log.flushSync());
  return log;
}

/** Opens a log that appends to a file readable by its owner only. */
export function openFileLog(file: string, onChange: (failing: string | null) => void): LogStream {
  let fd: number | undefined;
  const open = (): number => (fd ??= openSync(file, 'a', 0o600));
  const close = (): void => {
    if (fd !== undefined) closeSync(fd);
  };
  return createLogStream({ open, write, writeSync, close }, onChange);
}
