import { spawn, type ChildProcess } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { keptEnvironment } from './config.ts';
import { createFrameReader, FROM_HOST_FD, TO_HOST_FD, type FromHost } from './protocol.ts';

/** Maximum length of a log line. Unit: UTF-16 code units. */
const LOG_LINE_CHARS_MAX = 4_096;
/** Time to read the last frames after an exit: another process may keep the pipe open. */
const DRAIN_AFTER_EXIT_MS = 1_000;

export interface ChildOptions {
  readonly nodePath: string;
  readonly onLog: (line: string) => void;
  readonly onMessage: (message: FromHost) => void;
  /** Called once, after the last message. */
  readonly onGone: (reason: string) => void;
}

export interface Child {
  readonly pid: number | undefined;
  /** Sends an encoded frame. */
  send(frame: Buffer): void;
  kill(): void;
}

/** Starts the process. Never throws: a failed start is reported by `onGone`. */
export function startChild({ nodePath, onLog, onMessage, onGone }: ChildOptions): Child {
  const program = fileURLToPath(new URL('./host.ts', import.meta.url));
  const child: ChildProcess = spawn(nodePath, ['--disable-warning=ExperimentalWarning', program], {
    env: keptEnvironment(),
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    windowsHide: true,
  });
  const toHost = child.stdio[TO_HOST_FD] as Writable;
  const fromHost = child.stdio[FROM_HOST_FD] as Readable;
  // A dead child resets its pipes; its exit is reported below, so these errors add nothing.
  for (const pipe of [child.stdin, toHost, fromHost, child.stdout, child.stderr]) pipe?.on('error', () => {});
  for (const output of [child.stdout, child.stderr]) if (output !== null) readLines(output, onLog);
  const read = createFrameReader(onMessage);
  fromHost.on('data', (piece: Buffer) => {
    try {
      read(piece);
    } catch (error) {
      onLog(`[net-host] unreadable frame: ${(error as Error).message}`);
      child.kill('SIGKILL');
    }
  });

  let isGone = false;
  const goneBecause = (reason: string): void => {
    if (isGone) return;
    isGone = true;
    onGone(reason);
  };
  child.on('error', (error) => {
    if (child.pid === undefined) goneBecause(`it could not be started: ${error.message}`);
  });
  child.on('exit', (code, signal) => {
    const reason = signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`;
    const patience = setTimeout(() => goneBecause(reason), fromHost.closed ? 0 : DRAIN_AFTER_EXIT_MS);
    fromHost.once('close', () => {
      clearTimeout(patience);
      goneBecause(reason);
    });
  });

  return {
    pid: child.pid,
    send: (frame) => {
      if (toHost.writable) toHost.write(frame);
    },
    kill: () => child.kill('SIGKILL'),
  };
}

/** Calls `onLine` for each line, cut to {@link LOG_LINE_CHARS_MAX}. */
function readLines(stream: Readable, onLine: (line: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = (lines.pop() ?? '').slice(0, LOG_LINE_CHARS_MAX);
    for (const line of lines) onLine(line.slice(0, LOG_LINE_CHARS_MAX));
  });
  stream.on('end', () => {
    if (rest !== '') onLine(rest);
  });
}
