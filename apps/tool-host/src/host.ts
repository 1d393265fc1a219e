import { Socket } from 'node:net';
import { findCandidates, readCatalog } from './catalog.ts';
import type { ToolCatalog } from './contract.ts';
import { createFrameReader, encodeFrame } from './frames.ts';
import { FROM_HOST_FD, TO_HOST_FD, type FromHost, type HostSettings, type ToHost } from './protocol.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';
import { readThreadSources } from './thread-sources.ts';
import { startThreads } from './threads.ts';

/**
 * The tool host's main thread. It runs no tool code, so it is never blocked: it reads frames, starts tasks, keeps timeouts
 * and forwards outcomes. It ends with the process that started it.
 */

/** Timeout of a thread's start. Unit: milliseconds. */
const START_TIMEOUT_MS = 15_000;

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

function send(frame: FromHost): void {
  outgoing.write(encodeFrame(JSON.stringify(frame)));
}

function sendStarting(ids: readonly number[]): Promise<void> {
  const frame: FromHost = { kind: 'starting', ids };
  return new Promise((resolve) => {
    // A failed write means that the client is gone, so this process ends soon.
    outgoing.write(encodeFrame(JSON.stringify(frame)), () => resolve());
  });
}

/** Maximum import timeouts, in sequence, that warming may wait before calls are taken. */
const WARM_TIMES_MAX = 6;

let service: Scheduler | undefined;

/** Starts threads with the current modules on disk, and passes them to the scheduler. */
async function loadTools(settings: HostSettings, scheduler: Scheduler): Promise<ToolCatalog> {
  const candidates = await findCandidates(settings.tools_dirs);
  const sources = await readThreadSources(candidates.modules.map(({ file }) => file));
  const threads = startThreads(settings, sources, (report) => scheduler.onReport(report), log);
  // A module's import timeout must not run while its thread starts.
  await threads.warm([], AbortSignal.timeout(START_TIMEOUT_MS));
  const catalog = await readCatalog(candidates, threads, settings);
  await threads.warm(
    catalog.tools.map(({ file }) => file),
    AbortSignal.timeout(Math.min(catalog.tools.length, WARM_TIMES_MAX) * settings.load_timeout_ms),
  );
  scheduler.use(catalog, threads);
  return catalog;
}

async function configure(settings: HostSettings): Promise<void> {
  const scheduler = createScheduler(settings, {
    sendOutcomes: (json) => outgoing.write(encodeFrame(`{"kind":"outcomes","outcomes":[${json}]}`)),
    sendStarting,
    log,
    giveUp: (reason) => {
      log(`${reason}; the tool host ends and will be started anew`);
      endProcess();
    },
  });
  service = scheduler;
  send({ kind: 'ready', catalog: await loadTools(settings, scheduler) });
}

function onFrame(frame: ToHost, attachment: Buffer): void {
  if (frame.kind === 'configure') {
    void configure(frame.settings);
    return;
  }
  if (service === undefined) throw new Error(`a ${frame.kind} frame came before configure`);
  switch (frame.kind) {
    case 'calls':
      service.enqueue(frame.calls, attachment);
      return;
    case 'cancel':
      service.cancel(frame.ids);
      return;
    case 'ping':
      send({ kind: 'pong', request: frame.request });
      return;
  }
}

incoming.on(
  'data',
  createFrameReader((frame, attachment) => onFrame(frame as ToHost, attachment)),
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
