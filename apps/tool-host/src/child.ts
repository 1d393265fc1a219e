import { spawn, type ChildProcess } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { keptEnvironment } from './config.ts';
import { createFrameReader, encodeFrame } from './frames.ts';
import type { LogSource } from './options.ts';
import { FROM_HOST_FD, TO_HOST_FD, type FromHost, type ToHost } from './protocol.ts';
import { isToolOutput } from './thread-output.ts';

/** Maximum length of a log line. Unit: characters. */
const LOG_LINE_CHARS_MAX = 4_096;
/** The host's last log lines, kept to explain its end. */
const LAST_LINES_MAX = 5;
/** Milliseconds to read the last frames after an exit, because another process may keep the pipe open. */
const DRAIN_AFTER_EXIT_MS = 1_000;

export interface ChildOptions {
  readonly nodePath: string;
  readonly nodeArguments: readonly string[];
  readonly onLog: (line: string, source: LogSource) => void;
  readonly onFrame: (frame: FromHost) => void;
  /**
   * Called once, after the last frame. `reason`: how the child ended. `said`: its last log lines, appended to the reason.
   * They may contain output of a tool's own children, so they go only to the log.
   */
  readonly onGone: (reason: string, said: string) => void;
}

/** A tool host process. */
export interface Child {
  readonly pid: number | undefined;
  send(frame: ToHost): void;
  /** Sends a frame given as JSON. */
  sendJson(json: string): void;
  /** Closes the lifeline; the child exits at once. */
  release(): void;
  kill(): void;
}

/** Starts the process. Never throws: a failed start is reported by `onGone`. */
export function startChild(options: ChildOptions): Child {
  const lastLines: string[] = [];
  let gone = false;

  function goneBecause(reason: string): void {
    if (gone) return;
    gone = true;
    const said = lastLines.length === 0 ? '' : `; its last lines: ${lastLines.join(' | ')}`;
    options.onGone(reason, said);
  }

  function onHostLine(line: string): void {
    lastLines.push(line);
    if (lastLines.length > LAST_LINES_MAX) lastLines.shift();
    options.onLog(line, 'host');
  }

  function onToolLine(line: string): void {
    options.onLog(line, 'tool');
  }

  let child: ChildProcess;
  try {
    child = spawn(
      options.nodePath,
      [...options.nodeArguments, fileURLToPath(new URL('./host.ts', import.meta.url))],
      { env: keptEnvironment(), stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'], windowsHide: true },
    );
  } catch (error) {
    queueMicrotask(() => goneBecause(`it could not be started: ${(error as Error).message}`));
    return { pid: undefined, send() {}, sendJson() {}, release() {}, kill() {} };
  }

  const toHost = child.stdio[TO_HOST_FD] as Writable | null;
  const fromHost = child.stdio[FROM_HOST_FD] as Readable | null;
  // The host itself writes only to stderr.
  if (child.stdout !== null) readLines(child.stdout, onToolLine);
  if (child.stderr !== null)
    readLines(child.stderr, (line) => (isToolOutput(line) ? onToolLine(line) : onHostLine(line)));
  // A dead child resets its pipes; its exit is reported below, so these errors add nothing.
  child.stdin?.on('error', () => {});
  toHost?.on('error', () => {});
  if (fromHost !== null) {
    const read = createFrameReader((frame) => options.onFrame(frame as FromHost));
    fromHost.on('error', () => {});
    fromHost.on('data', (piece: Buffer) => {
      try {
        read(piece);
      } catch (error) {
        onHostLine(`[tool-host] unreadable frame: ${(error as Error).message}`);
        child.kill('SIGKILL');
      }
    });
  }

  child.on('error', (error) => {
    if (child.pid === undefined) goneBecause(`it could not be started: ${error.message}`);
  });
  child.on('exit', (code, signal) => {
    const reason = signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`;
    if (fromHost === null || fromHost.closed) {
      goneBecause(reason);
      return;
    }
    const patience = setTimeout(() => goneBecause(reason), DRAIN_AFTER_EXIT_MS);
    fromHost.once('close', () => {
      clearTimeout(patience);
      goneBecause(reason);
    });
  });

  function sendJson(json: string): void {
    if (!gone && toHost?.writable === true) toHost.write(encodeFrame(json));
  }

  return {
    pid: child.pid,
    send: (frame) => sendJson(JSON.stringify(frame)),
    sendJson,
    release() {
      child.stdin?.destroy();
      toHost?.end();
    },
    kill() {
      child.kill('SIGKILL');
    },
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
  stream.on('error', () => {});
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) end(line);
    if (rest.length > LOG_LINE_CHARS_MAX) {
      if (!isCut) onLine(rest.slice(0, LOG_LINE_CHARS_MAX));
      isCut = true;
      rest = '';
    }
  });
  stream.on('end', () => end(rest));
}
