import { spawn, type ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { createFrameReader, encodeFrame, type FromHost, type ToHost } from './frames.ts';
import { readMessage } from './read-message.ts';
import { jailed, PERMISSION_FLAGS, WASM_FILE } from './jail.ts';

/** V8 counts the engine's memory as its own, and collects garbage at each call if less is left. */
const HEAP_FLAGS = ['--max-old-space-size=256', '--expose-gc'];
/** Silences the warnings about the type stripper and about threads under the permission model. */
const QUIET_FLAGS = ['--disable-warning=ExperimentalWarning', '--disable-warning=SecurityWarning'];
const LOG_LINE_CHARS_MAX = 1_024;
/** Time to read the last frames after an exit. Unit: milliseconds. */
const DRAIN_AFTER_EXIT_MS = 1_000;

export interface HostProcessOptions {
  readonly threads: number;
  readonly isJailed: boolean;
  readonly onLog: (line: string) => void;
  readonly onMessage: (message: FromHost) => void;
  /** Called once, after the last message. */
  readonly onGone: (reason: string) => void;
}

export interface HostProcess {
  readonly pid: number | undefined;
  /** Returns false if the message is larger than a frame. */
  send(message: ToHost): boolean;
  kill(): void;
}

/** Starts the process with an empty environment. Never throws: a failed start is reported by `onGone`. */
export function startHostProcess(options: HostProcessOptions): HostProcess {
  const entry = fileURLToPath(new URL('./child.ts', import.meta.url));
  const node = process.execPath;
  const nodeArguments = [
    ...PERMISSION_FLAGS,
    ...HEAP_FLAGS,
    ...QUIET_FLAGS,
    entry,
    String(options.threads),
    WASM_FILE,
  ];
  const command = options.isJailed
    ? jailed(node, nodeArguments)
    : { program: node, arguments: nodeArguments };
  const child: ChildProcess = spawn(command.program, command.arguments, {
    env: { TZ: 'UTC' },
    cwd: '/',
    stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
  });
  let isGone = false;
  function gone(reason: string): void {
    if (isGone) return;
    isGone = true;
    options.onGone(reason);
  }

  // A dead child resets its pipes; its exit is reported below.
  child.stdin?.on('error', () => {});
  logLines(child.stderr, options.onLog);
  const messages = child.stdio[3] as Readable;
  const read = createFrameReader((message) => options.onMessage(readMessage(message)));
  messages.on('error', () => {});
  messages.on('data', (piece: Buffer) => {
    try {
      read(piece);
    } catch (error) {
      options.onLog(`unreadable frame: ${String(error)}`);
      child.kill('SIGKILL');
    }
  });
  child.on('error', (error) => {
    if (child.pid === undefined) gone(`it could not be started: ${error.message}`);
  });
  child.on('exit', (code, signal) => {
    const reason = signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`;
    const patience = setTimeout(() => gone(reason), DRAIN_AFTER_EXIT_MS);
    const end = (): void => {
      clearTimeout(patience);
      gone(reason);
    };
    if (messages.closed) end();
    else messages.once('close', end);
  });

  return {
    pid: child.pid,
    send(message) {
      const frame = encodeFrame(message);
      if (frame === undefined) return false;
      if (!isGone) child.stdin?.write(frame);
      return true;
    },
    kill: () => child.kill('SIGKILL'),
  };
}

function logLines(stream: Readable | null, onLog: (line: string) => void): void {
  let rest = '';
  stream?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = (lines.pop() ?? '').slice(0, LOG_LINE_CHARS_MAX);
    for (const line of lines) if (line !== '') onLog(line.slice(0, LOG_LINE_CHARS_MAX));
  });
}
