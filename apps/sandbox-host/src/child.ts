import { connectToWorker, endProcess } from '@nightshift/host-process/worker-link';
import { readFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { fileURLToPath } from 'node:url';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { OUTPUT_CHARS_MAX, type SandboxOutcome, type SandboxStatus } from './contract.ts';
import type { FetchMessage } from './guest-api.ts';
import { FRAME_BYTES_MAX, type FromSandboxHost, type ToSandboxHost } from './messages.ts';
import type { ThreadData, ThreadMessage, ThreadTask } from './thread.ts';

/**
 * The main thread of the host process: `node child.ts <threads> <wasm file>`. It runs no uploaded code and parses nothing of
 * it, so it is never blocked. It ends with the process that started it.
 */

const THREAD_FILES = ['./thread.ts', './guest-api.ts', './sandbox.ts', './contract.ts'];
/** Grace period of the engine's own interrupt, after which the thread is ended. Unit: milliseconds. */
const KILL_AFTER_DEADLINE_MS = 100;
/** Maximum time until a thread takes up a call. Unit: milliseconds. */
const TAKE_UP_TIMEOUT_MS = 10_000;
/** Maximum time until all threads are ready. Unit: milliseconds. */
const START_TIMEOUT_MS = 30_000;
/** V8 counts the engine's memory as its own, and collects garbage at each call if less is left. Unit: megabytes. */
const THREAD_MEMORY_MB = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 };
/** Length of a result that fits a frame whatever its characters are. Unit: UTF-16 code units. */
const RESULT_CHARS_SAFE = (FRAME_BYTES_MAX - 12 * OUTPUT_CHARS_MAX - 1_024) / 6;

interface RunningCall {
  readonly stop: AbortController;
  readonly port: MessagePort | undefined;
  readonly timeoutMs: number;
  timer: NodeJS.Timeout;
  startedAt: number | undefined;
}

const [threads = '1', wasmFile = ''] = process.argv.slice(2);
const running = new Map<number, RunningCall>();
let threadsReady = 0;

function sendEnd(id: number, reply: SandboxOutcome, isBroken: boolean): void {
  if (link.send({ kind: 'ended', id, reply, isBroken })) return;
  const result = reply.result.slice(0, RESULT_CHARS_SAFE);
  link.send({ kind: 'ended', id, reply: { ...reply, result, truncated: true }, isBroken });
}

/** Gives the answer of a request to the thread of its call. */
function answer(id: number, message: FetchMessage): void {
  running.get(id)?.port?.postMessage(message);
}

function endedEarly(call: RunningCall, status: SandboxStatus, result: string): SandboxOutcome {
  const duration = call.startedAt === undefined ? 0 : performance.now() - call.startedAt;
  return { status, result, duration_ms: duration, truncated: false, stdout: '', stderr: '' };
}

async function run(
  pool: Piscina,
  { id, call, arguments: text }: ToSandboxHost & { kind: 'call' },
): Promise<void> {
  const channel = call.network.length > 0 ? new MessageChannel() : undefined;
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort('not started'), TAKE_UP_TIMEOUT_MS);
  const current: RunningCall = {
    stop,
    port: channel?.port1,
    timeoutMs: call.timeout_ms,
    timer,
    startedAt: undefined,
  };
  running.set(id, current);
  channel?.port1.on('message', ({ fetch, text: request }: FetchMessage) => {
    if (link.send({ kind: 'fetch', id, fetch, request })) return;
    answer(id, { fetch, text: JSON.stringify({ error: 'the request is too large' }) });
  });
  const task: ThreadTask = { id, call, arguments: text, port: channel?.port2 };
  let isBroken = false;
  const outcome = await (
    pool.run(task, {
      signal: stop.signal,
      transferList: channel === undefined ? [] : [channel.port2],
    }) as Promise<SandboxOutcome>
  ).catch((error: unknown): SandboxOutcome => {
    if (stop.signal.reason === 'deadline')
      return endedEarly(
        current,
        'timed_out',
        `the tool did not return within its timeout of ${call.timeout_ms} ms`,
      );
    isBroken = stop.signal.reason !== 'cancelled';
    return endedEarly(current, 'crashed', `the sandbox of the call ended: ${String(error)}`);
  });
  clearTimeout(current.timer);
  channel?.port1.close();
  running.delete(id);
  sendEnd(id, outcome, isBroken);
}

/** Tells the worker when all threads are up. Starts the timeout of a call when its thread has taken it up. */
function onThreadMessage(message: ThreadMessage): void {
  if ('isReady' in message) {
    threadsReady += 1;
    if (threadsReady < Number(threads)) return;
    clearTimeout(startTimer);
    link.send({ kind: 'ready' });
    return;
  }
  const call = running.get(message.started);
  if (call === undefined) return;
  clearTimeout(call.timer);
  call.startedAt = performance.now();
  call.timer = setTimeout(() => call.stop.abort('deadline'), call.timeoutMs + KILL_AFTER_DEADLINE_MS);
}

function onMessage(message: ToSandboxHost): void {
  if (message.kind === 'call') void run(pool, message);
  else if (message.kind === 'cancel') running.get(message.id)?.stop.abort('cancelled');
  else if (message.kind === 'fetched') answer(message.id, { fetch: message.fetch, text: message.answer });
}

/** Returns the files of a thread without their types, by URL. */
async function readSources(): Promise<ThreadData['sources']> {
  const urls = THREAD_FILES.map((name) => new URL(name, import.meta.url));
  const entries = urls.map(
    async (url) => [url.href, stripTypeScriptTypes(await readFile(url, 'utf8'))] as const,
  );
  return new Map(await Promise.all(entries));
}

async function openPool(): Promise<Piscina> {
  const workerData: ThreadData = {
    wasm: await WebAssembly.compile(await readFile(wasmFile)),
    sources: await readSources(),
    guest: await readFile(new URL('./guest.mjs', import.meta.url), 'utf8'),
  };
  const pool = new Piscina({
    filename: fileURLToPath(new URL('./thread-entry.mjs', import.meta.url)),
    name: 'runCode',
    workerData,
    minThreads: Number(threads),
    maxThreads: Number(threads),
    // Waiting on atomics would stop the messages of `fetch`.
    atomics: 'disabled',
    recordTiming: false,
    resourceLimits: THREAD_MEMORY_MB,
  });
  pool.on('error', endProcess);
  pool.on('message', onThreadMessage);
  return pool;
}

// The worker sends calls once the threads are ready, and so after the pool is open.
const link = connectToWorker<ToSandboxHost, FromSandboxHost>(FRAME_BYTES_MAX, onMessage);
const startTimer = setTimeout(endProcess, START_TIMEOUT_MS);
const pool = await openPool();
