import { Socket } from 'node:net';
import { findCandidates, readCatalog } from './catalog.ts';
import { createFrameReader, encodeFrame } from './frames.ts';
import { FROM_HOST_FD, TO_HOST_FD, type FromHost, type HostSettings, type ToHost } from './protocol.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';
import { readThreadSources } from './thread-sources.ts';
import { startThreads } from './threads.ts';

/**
 * The tool host's main thread. It runs no tool code, so it is never blocked: it reads frames, hands calls to threads, keeps
 * deadlines and forwards outcomes. It ends with the process that started it.
 */

/** Timeout of a thread's start. Unit: milliseconds. */
const START_TIMEOUT_MS = 15_000;
/** Maximum import timeouts, in sequence, that warming may wait before calls are taken. */
const WARM_TIMES_MAX = 6;
/** Maximum text of outcomes that wait for others. */
const OUTCOME_CHARS_MAX = 1_000_000;

/**
 * Ends the process at once.
 * A plain exit waits for threads, and native code may block a thread for minutes. No cleanup is needed: finished outcomes
 * are sent, and the client decides about the rest.
 */
function endProcess(): never {
  process.kill(process.pid, 'SIGKILL');
  process.exit(1);
}

function log(line: string): void {
  process.stderr.write(`[tool-host] ${line}\n`);
}

const incoming = new Socket({ fd: TO_HOST_FD, readable: true, writable: false });
const outgoing = new Socket({ fd: FROM_HOST_FD, readable: false, writable: true });

/** Resolves when the frame has left this process. A failed write means that the client is gone, so this process ends. */
function send(frame: FromHost): Promise<void> {
  return new Promise((resolve) => {
    outgoing.write(encodeFrame(JSON.stringify(frame)), () => resolve());
  });
}

/** Outcomes of this turn of the event loop, sent together. */
let outcomes: string[] = [];
let outcomeChars = 0;

function sendOutcome(json: string): void {
  outcomes.push(json);
  outcomeChars += json.length;
  if (outcomes.length === 1) setImmediate(sendOutcomes);
  else if (outcomeChars > OUTCOME_CHARS_MAX) sendOutcomes();
}

function sendOutcomes(): void {
  if (outcomes.length === 0) return;
  outgoing.write(encodeFrame(`{"kind":"outcomes","outcomes":[${outcomes.join(',')}]}`));
  outcomes = [];
  outcomeChars = 0;
}

let scheduler: Scheduler | undefined;

/** Starts threads with the current modules on disk, and reads the catalog. */
async function configure(settings: HostSettings): Promise<void> {
  const candidates = await findCandidates(settings.tools_dirs);
  const sources = await readThreadSources(candidates.modules.map(({ file }) => file));
  const threads = startThreads(settings, sources, log);
  // A module's import timeout must not run while its thread starts.
  await threads.warm([], AbortSignal.timeout(START_TIMEOUT_MS));
  const catalog = await readCatalog(candidates, threads, settings);
  const fast = catalog.tools.filter(({ speed, concurrency }) => speed === 'fast' && concurrency === null);
  await threads.warm(
    fast.map(({ file }) => file),
    AbortSignal.timeout(Math.min(fast.length, WARM_TIMES_MAX) * settings.load_timeout_ms),
  );
  scheduler = createScheduler(catalog, threads, settings, {
    sendOutcome,
    sendStarting: (ids) => send({ kind: 'starting', ids }),
    log,
    giveUp: (reason) => {
      log(`${reason}; the tool host ends and will be started anew`);
      endProcess();
    },
  });
  void send({ kind: 'ready', catalog });
}

function onFrame(frame: ToHost): void {
  switch (frame.kind) {
    case 'configure':
      void configure(frame.settings);
      return;
    // The client sends calls only after `ready`.
    case 'calls':
      scheduler?.enqueue(frame.calls, new Set(frame.interrupted));
      return;
    case 'cancel':
      scheduler?.cancel(frame.id);
      return;
    case 'ping':
      void send({ kind: 'pong' });
      return;
  }
}

incoming.on(
  'data',
  createFrameReader((frame) => onFrame(frame as ToHost)),
);
for (const pipe of [incoming, outgoing]) {
  pipe.on('error', endProcess);
  pipe.on('close', endProcess);
}

// The lifeline: it carries no data, and closes when the worker is gone for any reason.
process.stdin.on('error', endProcess);
process.stdin.on('close', endProcess);
process.stdin.resume();

// A stop signal often goes to the worker's whole group or unit. The worker decides how long calls may go on.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
