import { connectToWorker, endProcess, writeLog } from '@nightshift/host-process/worker-link';
import { findCandidates, readCatalog } from './catalog.ts';
import { FRAME_BYTES_MAX, type FromToolHost, type HostSettings, type ToToolHost } from './protocol.ts';
import { createScheduler, type IncomingCall, type Scheduler } from './scheduler.ts';
import { readThreadSources } from './thread-sources.ts';
import { startThreads } from './threads.ts';

/**
 * The tool host's main thread: `node host.ts <settings>`. It runs no tool code, so it is never blocked: it hands calls to
 * threads, keeps deadlines and forwards outcomes. It ends with the process that started it.
 */

/** Timeout of a thread's start. Unit: milliseconds. */
const START_TIMEOUT_MS = 15_000;
/** Maximum import timeouts, in sequence, that warming may wait before calls are taken. */
const WARM_TIMES_MAX = 6;

const settings = JSON.parse(process.argv[2] ?? '') as HostSettings;
const link = connectToWorker<ToToolHost, FromToolHost>(FRAME_BYTES_MAX, onMessage);
/** Undefined until the catalog is read. */
let scheduler: Scheduler | undefined = undefined;

function log(line: string): void {
  writeLog(`[tool-host] ${line}`);
}

/** Calls of this turn, which are queued together. */
let arrived: IncomingCall[] = [];

function enqueueArrived(): void {
  const calls = arrived;
  arrived = [];
  // The worker sends calls only after `ready`.
  scheduler?.enqueue(calls);
}

function onMessage(message: ToToolHost): void {
  if (message.kind === 'call') {
    if (arrived.push(message) === 1) queueMicrotask(enqueueArrived);
  } else if (message.kind === 'cancel') {
    enqueueArrived();
    scheduler?.cancel(message.id);
  }
}

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
scheduler = createScheduler(catalog, threads.pools, settings, {
  sendOutcome: (id, outcome) => link.write(`{"kind":"ended","id":${id},"reply":${outcome}}`),
  sendStarting: (ids) =>
    new Promise((resolve) =>
      link.writeNow(JSON.stringify({ kind: 'starting', ids } satisfies FromToolHost), resolve),
    ),
  log,
  giveUp(reason) {
    log(`${reason}; the tool host ends and will be started anew`);
    endProcess();
  },
});
link.send({ kind: 'catalog', catalog });
link.send({ kind: 'ready' });
