import { spawn, type ChildProcess } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { createFrameReader, createFrameWriter } from './frames.ts';
import { FROM_HOST_FD, TO_HOST_FD } from './messages.ts';

/** Maximum length of a log line. Unit: UTF-16 code units. */
const LOG_LINE_CHARS_MAX = 4_096;
/** The last log lines of the process itself, kept to explain its end. */
const LAST_LINES_MAX = 5;
/** Time to read the last frames after an exit, because another process may keep the pipe open. Unit: milliseconds. */
const DRAIN_AFTER_EXIT_MS = 1_000;

/** How to start a host process. It sees no variable but those of `env`. */
export interface HostCommand {
  readonly program: string;
  readonly arguments: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** Source of a log line: the host with its runtime, or a tool, whose output is arbitrary. */
export type LogSource = 'host' | 'tool';

export interface ChildOptions {
  readonly command: HostCommand;
  readonly frameBytesMax: number;
  /** Tells whose line of stderr this is. */
  readonly sourceOf: (line: string) => LogSource;
  readonly onLog: (line: string, source: LogSource) => void;
  /** May throw: the process is then killed. */
  readonly onMessage: (message: unknown) => void;
  /**
   * Called once, after the last message. `reason`: how the process ended. `said`: its last log lines, appended to the reason.
   * They may hold output of tools, so they go only to the log.
   */
  readonly onGone: (reason: string, said: string) => void;
}

/** A host process. */
export interface Child {
  readonly pid: number | undefined;
  /** Sends a message given as JSON; dropped if the process is gone. Returns false if it is larger than a frame. */
  send(json: string): boolean;
  kill(): void;
}

/** Starts a host process. Never throws: a failed start is reported by `onGone`. */
export function startChild({
  command,
  frameBytesMax,
  sourceOf,
  onLog,
  onMessage,
  onGone,
}: ChildOptions): Child {
  const lastLines: string[] = [];
  let isGone = false;

  function gone(reason: string): void {
    if (isGone) return;
    isGone = true;
    onGone(reason, lastLines.length === 0 ? '' : `; its last lines: ${lastLines.join(' | ')}`);
  }

  function log(line: string, source: LogSource): void {
    if (source === 'host') lastLines.push(line);
    if (lastLines.length > LAST_LINES_MAX) lastLines.shift();
    onLog(line, source);
  }

  let child: ChildProcess;
  try {
    child = spawn(command.program, command.arguments, {
      env: command.env,
      cwd: command.cwd,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
      windowsHide: true,
    });
  } catch (error) {
    queueMicrotask(() => gone(`it could not be started: ${(error as Error).message}`));
    return { pid: undefined, send: () => true, kill() {} };
  }
  const toHost = child.stdio[TO_HOST_FD] as Writable;
  const fromHost = child.stdio[FROM_HOST_FD] as Readable;
  // A dead child resets its pipes; its exit is reported below, so these errors add nothing.
  for (const pipe of child.stdio) pipe?.on('error', () => {});
  if (child.stdout !== null) readLines(child.stdout, (line) => log(line, 'tool'));
  if (child.stderr !== null) readLines(child.stderr, (line) => log(line, sourceOf(line)));
  const read = createFrameReader(frameBytesMax, onMessage);
  fromHost.on('data', (piece: Buffer) => {
    try {
      read(piece);
    } catch (error) {
      log(`unreadable frame: ${String(error)}`, 'host');
      child.kill('SIGKILL');
    }
  });
  child.on('error', (error) => {
    if (child.pid === undefined) gone(`it could not be started: ${error.message}`);
  });
  child.on('exit', (code, signal) => {
    const reason = signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`;
    const patience = setTimeout(() => gone(reason), fromHost.closed ? 0 : DRAIN_AFTER_EXIT_MS);
    fromHost.once('close', () => {
      clearTimeout(patience);
      gone(reason);
    });
  });

  const writer = createFrameWriter(toHost, frameBytesMax);
  return {
    pid: child.pid,
    send: (json) => isGone || !toHost.writable || writer.write(json),
    kill: () => child.kill('SIGKILL'),
  };
}

/** Calls `onLine` for each line, cut to {@link LOG_LINE_CHARS_MAX}: the rest of a line would lack its tool name. */
function readLines(stream: Readable, onLine: (line: string) => void): void {
  let rest = '';
  let isCut = false;
  const end = (line: string): void => {
    if (!isCut && line !== '') onLine(line.slice(0, LOG_LINE_CHARS_MAX));
    isCut = false;
  };
  stream.setEncoding('utf8');
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) end(line);
    if (rest.length <= LOG_LINE_CHARS_MAX) return;
    end(rest);
    isCut = true;
    rest = '';
  });
  stream.on('end', () => end(rest));
}
