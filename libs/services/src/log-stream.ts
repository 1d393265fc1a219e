import { closeSync, openSync, write, writeSync } from 'node:fs';

/** Characters of lines that wait for a write; lines beyond are dropped. */
const WAITING_CHARS_MAX = 1_000_000;
/** Milliseconds after a failed write until it is tried again. */
const RETRY_MS = 100;
/** Milliseconds between two tries of {@link LogStream.flushSync} on a full pipe, and tries without progress. */
const FLUSH_PAUSE_MS = 10;
const FLUSH_TRIES_MAX = 30;

/** How a log fares. */
export interface LogStatus {
  /** Lines dropped since the process started. */
  readonly dropped_lines: number;
  /** Why lines are not written at present; null while they are. */
  readonly failing: string | null;
}

/** The answer to a liveness check. */
export interface Liveness {
  readonly status: 'ok';
  /** Sentences about parts that fail while the process works on. */
  readonly degraded: string[];
  readonly log_lines_dropped: number;
}

/** Describes a process that answers and logs with `log`. */
export function liveness({ dropped_lines, failing }: LogStatus): Liveness {
  const degraded = failing === null ? [] : [`The log cannot be written: ${failing}. Work goes on.`];
  return { status: 'ok', degraded, log_lines_dropped: dropped_lines };
}

/** Where a process writes its log. */
export interface LogStream {
  /** Takes whole lines. Never throws and never blocks: lines are dropped and counted where too many wait. */
  write(lines: string): void;
  /** Writes the waiting lines, for a process that ends. Gives up at the first error, and on a pipe that stays full. */
  flushSync(): void;
  /** Closes the file once waiting lines are written, or cannot be. */
  close(): void;
  status(): LogStatus;
}

/** The system calls of a log; tests have their own. */
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

/**
 * Writes lines to a file descriptor, one write at a time. A failed write (a full disk, a reader that is gone) is tried again
 * until it succeeds; meanwhile lines wait, and are dropped beyond {@link WAITING_CHARS_MAX} characters. A line of level 40
 * stands where lines are missing. `onChange` is told when writing begins to fail, and when it succeeds again (null).
 */
export function createLogStream(
  system: LogSystem,
  onChange: (failing: string | null) => void = () => undefined,
): LogStream {
  let waiting: string[] = [];
  let waitingChars = 0;
  /** The part of the current write that the system has not taken yet. */
  let rest: Buffer = Buffer.alloc(0);
  let state: 'idle' | 'writing' | 'resting' = 'idle';
  let isClosing = false;
  let failing: string | null = null;
  let dropped = 0;
  let droppedUntold = 0;

  const setFailing = (reason: string | null): void => {
    const isNews = (failing === null) !== (reason === null);
    failing = reason;
    if (isNews) onChange(reason);
  };
  const take = (): Buffer => {
    const taken = Buffer.from(waiting.join(''));
    waiting = [];
    waitingChars = 0;
    return taken;
  };
  const drop = (lines: string, reason: string): void => {
    const count = lines.split('\n').length - 1;
    dropped += count;
    droppedUntold += count;
    if (failing === null) setFailing(reason);
  };
  const tellDropped = (): void => {
    if (droppedUntold === 0) return;
    const line = { level: 40, time: Date.now(), dropped_lines: droppedUntold, reason: failing };
    waiting.push(`${JSON.stringify({ ...line, msg: 'log lines were dropped here' })}\n`);
    droppedUntold = 0;
  };
  const writeNext = (): void => {
    if (rest.length === 0) rest = take();
    if (rest.length === 0) {
      state = 'idle';
      if (isClosing) system.close();
      return;
    }
    state = 'writing';
    try {
      system.write(system.open(), rest, (error, written) => {
        if (error !== null) {
          retryLater(error);
          return;
        }
        tellDropped();
        setFailing(null);
        rest = rest.subarray(written);
        writeNext();
      });
    } catch (error) {
      retryLater(error as NodeJS.ErrnoException);
    }
  };
  const retryLater = ({ code, message }: NodeJS.ErrnoException): void => {
    // A full pipe is a reader that takes its time.
    if (code !== 'EAGAIN') setFailing(message);
    if (isClosing) {
      drop(Buffer.concat([rest, take()]).toString(), message);
      system.close();
      return;
    }
    state = 'resting';
    setTimeout(writeNext, RETRY_MS).unref();
  };
  return {
    write(lines) {
      if (waitingChars > 0 && waitingChars + lines.length > WAITING_CHARS_MAX) {
        drop(lines, 'lines come faster than they can be written');
        return;
      }
      waiting.push(lines);
      waitingChars += lines.length;
      if (state === 'idle') writeNext();
    },
    flushSync() {
      // A write under way ends by itself, before the process does.
      let left = state === 'writing' ? take() : Buffer.concat([rest, take()]);
      if (state !== 'writing') rest = Buffer.alloc(0);
      for (let tries = 0; left.length > 0 && tries < FLUSH_TRIES_MAX; tries++) {
        try {
          left = left.subarray(system.writeSync(system.open(), left));
          tries = 0;
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') break;
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FLUSH_PAUSE_MS);
        }
      }
      if (left.length > 0) drop(left.toString(), 'lines could not be written at once');
    },
    close() {
      isClosing = true;
      if (state === 'idle') system.close();
    },
    status: () => ({ dropped_lines: dropped, failing }),
  };
}

/** The log of this process: its standard output. Waiting lines are written when the process exits. */
export function openProcessLog(): LogStream {
  const { fd } = process.stdout;
  const log = createLogStream({ open: () => fd, write, writeSync, close: () => undefined });
  process.on('exit', () => log.flushSync());
  return log;
}

/** A log that is added to a file, which its owner alone may read. */
export function openFileLog(file: string, onChange: (failing: string | null) => void): LogStream {
  let fd: number | undefined;
  const open = (): number => (fd ??= openSync(file, 'a', 0o600));
  const close = (): void => {
    if (fd !== undefined) closeSync(fd);
  };
  return createLogStream({ open, write, writeSync, close }, onChange);
}
