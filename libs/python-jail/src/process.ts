import { spawn, type ChildProcess } from 'node:child_process';
import type { Duplex, Readable } from 'node:stream';
import { z } from 'zod';
import { commandOf, type InsideProgram, type Jail } from './jail.ts';

/** A program of the jail and its request. */
export interface JailTask {
  readonly program: InsideProgram;
  readonly request: object;
  /** Maximum time from `started` to the end. Unit: milliseconds. */
  readonly timeoutMs: number;
  /** Maximum length of all messages of the process. Unit: bytes. */
  readonly replyBytesMax: number;
  /** Ends the process early. */
  readonly signal?: AbortSignal | undefined;
  /** Answers a `fetch`, both as JSON text. Never rejects. */
  readonly onFetch?: ((request: string) => Promise<object>) | undefined;
}

/** How a process has ended. */
export interface JailEnd {
  /** `crashed`: it did not start, or was ended from outside. */
  readonly status: 'succeeded' | 'failed' | 'timed_out' | 'crashed';
  /** The program's result, else a sentence. */
  readonly result: string;
  readonly truncated: boolean;
  /** With the start of the process; 0 if the program did not begin. Unit: milliseconds. */
  readonly duration_ms: number;
  readonly stdout: string;
  readonly stderr: string;
  /** False only if the program certainly did not begin. */
  readonly started: boolean;
}

/** Maximum length of captured stdout and stderr each. Unit: UTF-16 code units. */
export const OUTPUT_CHARS_MAX = 4_096;
/** Maximum time until a process has begun. Unit: milliseconds. */
const START_TIMEOUT_MS = 10_000;
/** Maximum number of messages of a process: its start, its end and its requests. */
const MESSAGES_MAX = 100;
const NEWLINE = 10;
/** Exit code of bwrap for a process that was ended by SIGKILL. */
const KILLED = 128 + 9;

/** A process writes what it likes, so its messages are checked like those of a stranger. */
const message = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('started') }),
  z.strictObject({ kind: z.literal('fetch'), request: z.string() }),
  z.strictObject({
    kind: z.literal('ended'),
    status: z.enum(['succeeded', 'failed']),
    result: z.string(),
    truncated: z.boolean(),
  }),
]);

type Message = z.output<typeof message>;
type End = Pick<JailEnd, 'status' | 'result'> & { readonly truncated?: boolean };

/** Runs a program in a process of its own. Never rejects; resolves when no process of it is left. */
export function runInJail(jail: Jail, task: JailTask): Promise<JailEnd> {
  const { signal } = task;
  if (signal?.aborted === true)
    return Promise.resolve(toEnd({ status: 'crashed', result: 'the caller gave up' }));
  // The kernel counts processor time for a worker that has died or hangs.
  const command = commandOf(jail, task.program, Math.ceil(task.timeoutMs / 1_000) + 10);
  const child = spawn('bwrap', command, {
    env: {},
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  capture(child.stdout, (text) => (output.stdout = text));
  capture(child.stderr, (text) => (output.stderr = text));
  const [, , , channel, filter] = child.stdio as [null, Readable, Readable, Duplex, Duplex];
  // A dead child resets its pipes; its exit is reported below.
  for (const pipe of [channel, filter]) pipe.on('error', () => {});
  filter.end(jail.filter);
  channel.write(`${JSON.stringify(task.request)}\n`);

  const spawnedAt = performance.now();
  let started = false;
  let end: End | undefined;
  let endedAt: number | undefined;
  function stop(how: End): void {
    if (end !== undefined) return;
    end = how;
    endedAt = performance.now();
    child.kill('SIGKILL');
  }
  let timer = setTimeout(
    () => stop({ status: 'crashed', result: `the jail did not start within ${START_TIMEOUT_MS} ms` }),
    START_TIMEOUT_MS,
  );
  const cancel = (): void => stop({ status: 'crashed', result: 'the caller gave up' });
  signal?.addEventListener('abort', cancel, { once: true });
  readMessages(channel, task.replyBytesMax, {
    onMessage(received) {
      if (received.kind === 'ended') stop(received);
      else if (received.kind === 'fetch') void answerFetch(channel, task, received.request);
      else if (!started) {
        started = true;
        clearTimeout(timer);
        timer = setTimeout(() => stop(timedOut(task.timeoutMs)), task.timeoutMs);
      }
      return end === undefined;
    },
    onFault: (fault) => stop({ status: 'failed', result: `the process of the tool ${fault}` }),
  });

  return whenGone(child, channel).then((exit) => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', cancel);
    const how = end ?? (started ? endedByItself(exit) : neverStarted(exit, output.stderr));
    const duration = (endedAt ?? performance.now()) - spawnedAt;
    return { ...toEnd(how), ...output, started, duration_ms: started ? duration : 0 };
  });
}

function toEnd({ status, result, truncated = false }: End): JailEnd {
  return { status, result, truncated, duration_ms: 0, stdout: '', stderr: '', started: false };
}

function timedOut(timeoutMs: number): End {
  return { status: 'timed_out', result: `the tool did not return within its timeout of ${timeoutMs} ms` };
}

/** SIGKILL may come from the kernel that is out of memory, or from an operator; any other end is the tool's own. */
function endedByItself({ code, reason }: Exit): End {
  const status = code === KILLED ? 'crashed' : 'failed';
  return { status, result: `the process of the tool ended before it returned: ${reason}` };
}

function neverStarted({ reason }: Exit, stderr: string): End {
  const [line = ''] = stderr.trim().split('\n').slice(-1);
  return { status: 'crashed', result: `the jail did not start: ${line === '' ? reason : line}` };
}

interface Exit {
  readonly code: number | null;
  readonly reason: string;
}

/** Resolves when bwrap has ended and no process holds the channel, which the last process of the jail does. */
async function whenGone(child: ChildProcess, channel: Duplex): Promise<Exit> {
  const closed = new Promise<void>((resolve) => channel.once('close', resolve));
  const exit = await new Promise<Exit>((resolve) => {
    child.once('error', (error) => resolve({ code: null, reason: error.message }));
    child.once('exit', (code, signal) => resolve({ code, reason: signal ?? `exit code ${code}` }));
  });
  if (child.pid !== undefined) await closed;
  for (const pipe of child.stdio) pipe?.destroy();
  return exit;
}

/** Reads the first characters of a stream; then it stays full, so that a flood costs the worker nothing. */
function capture(stream: Readable | null, onText: (text: string) => void): void {
  let text = '';
  stream?.setEncoding('utf8').on('data', (piece: string) => {
    text = (text + piece).slice(0, OUTPUT_CHARS_MAX);
    onText(text);
    if (text.length === OUTPUT_CHARS_MAX) stream.pause();
  });
}

async function answerFetch(channel: Duplex, { onFetch }: JailTask, request: string): Promise<void> {
  const answer = (await onFetch?.(request)) ?? { error: 'the tool has no network list' };
  if (channel.writable) channel.write(`${JSON.stringify(answer)}\n`);
}

/** Reads messages, one a line, until `onMessage` returns false. A flood costs no more than the limits. */
function readMessages(
  channel: Duplex,
  bytesMax: number,
  { onMessage, onFault }: { onMessage: (received: Message) => boolean; onFault: (fault: string) => void },
): void {
  let pieces: Buffer[] = [];
  let bytes = 0;
  let messages = 0;
  let isEnded = false;
  function fail(fault: string): void {
    isEnded = true;
    onFault(fault);
  }
  /** Returns false at the end. */
  function take(line: string): boolean {
    messages += 1;
    const received = messages > MESSAGES_MAX ? undefined : readLine(line);
    if (received === undefined) fail('sent an unreadable message, or too many');
    else isEnded = !onMessage(received);
    return !isEnded;
  }
  channel.on('data', (piece: Buffer) => {
    if (isEnded) return;
    bytes += piece.length;
    pieces.push(piece);
    if (bytes > bytesMax) {
      fail(`sent more than ${bytesMax} bytes`);
      return;
    }
    if (!piece.includes(NEWLINE)) return;
    const text = Buffer.concat(pieces);
    let from = 0;
    for (let at = text.indexOf(NEWLINE); at !== -1; at = text.indexOf(NEWLINE, from)) {
      if (!take(text.toString('utf8', from, at))) return;
      from = at + 1;
    }
    pieces = [text.subarray(from)];
  });
}

function readLine(line: string): Message | undefined {
  try {
    return message.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}
