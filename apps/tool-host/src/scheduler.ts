import type { Speed, ToolCatalog, ToolManifest } from './contract.ts';
import type { HostSettings, WireCall } from './protocol.ts';
import { givenUpOutcome, outcomeJson, startSession, type QueuedCall, type Session } from './session.ts';
import type { ThreadPool } from './threads.ts';

/** Calls under way in a thread. */
const CALLS_UNDER_WAY = 64;
/** Interval of looks at sessions: the accuracy of a deadline. Unit: milliseconds. */
const WATCH_EVERY_MS = 20;
/** Time in which an ending session is expected to free its thread: a new thread costs more. Unit: milliseconds. */
const END_WAIT_MS = 20;
/** Maximum argument characters handed over at once, because a thread's heap is small. */
const GROUP_CHARS_MAX = 4 * 1024 * 1024;
/** Calls of a tool that run alone after a thread ended under its `once` calls. */
const ALONE_CALLS = 1_000;
/** Consecutive failures to import a module after which its waiting calls fail. */
const IMPORT_FAILURES_MAX = 10;
/** Pause after a failure to import a module: each attempt costs a thread. Unit: milliseconds. */
const IMPORT_PAUSE_MS = 250;

/** The effects of the scheduler. */
export interface SchedulerPorts {
  readonly sendOutcome: (id: number, outcomeJson: string) => void;
  /** Announces calls about to start; resolves once the announcement survives this process. */
  readonly sendStarting: (ids: readonly number[]) => Promise<void>;
  readonly log: (line: string) => void;
  /** Ends the host: too many threads are stuck in native code. */
  readonly giveUp: (reason: string) => void;
}

/**
 * Hands waiting calls to threads, and gives every call exactly one outcome.
 * A thread serves one tool at a time. A tool never has the last thread of its pool. When tools find no free thread, the
 * oldest sessions take no more calls, and the tools with the fewest threads come next.
 */
export interface Scheduler {
  /** Queues calls. */
  enqueue(calls: readonly IncomingCall[]): void;
  /** Cancels a call: a waiting call ends at once, a running call is signalled and stopped half a second later. */
  cancel(id: number): void;
}

/** `repeated`: it was running when a host ended, so it runs alone. */
export type IncomingCall = WireCall & { readonly id: number; readonly repeated: boolean };

interface ToolQueue {
  readonly tool: ToolManifest;
  readonly pool: PoolState;
  /** Calls that may share a thread, and calls that run alone. */
  readonly waiting: Set<QueuedCall>;
  readonly alone: Set<QueuedCall>;
  readonly sessions: Set<Session>;
  /** Number of next calls that run alone, because a thread ended under `once` calls. */
  aloneCalls: number;
  /** Consecutive failures to import the module, and the reason and time of the last. */
  importFailures: number;
  importReason: string;
  importFailedMs: number;
}

interface PoolState {
  readonly threads: ThreadPool;
  /** Queues with waiting calls, least recently served first. */
  readonly ready: Set<ToolQueue>;
  /** Sessions with their queues, oldest first. */
  readonly sessions: Map<Session, ToolQueue>;
}

/** Creates a scheduler of the tools. `slots`: calls under way in a thread. */
export function createScheduler(
  catalog: ToolCatalog,
  pools: Readonly<Record<Speed, ThreadPool>>,
  settings: HostSettings,
  ports: SchedulerPorts,
  slots = CALLS_UNDER_WAY,
): Scheduler {
  const states = { fast: poolState(pools.fast), slow: poolState(pools.slow) };
  const queues = new Map(catalog.tools.map((tool) => [tool.name, queueOf(tool)]));
  /** Calls without an outcome. */
  const open = new Map<number, QueuedCall>();
  let watch: NodeJS.Timeout | undefined;

  function poolState(threads: ThreadPool): PoolState {
    return { threads, ready: new Set(), sessions: new Map() };
  }

  function queueOf(tool: ToolManifest): ToolQueue {
    return {
      tool,
      pool: states[tool.speed],
      waiting: new Set(),
      alone: new Set(),
      sessions: new Set(),
      aloneCalls: 0,
      importFailures: 0,
      importReason: '',
      importFailedMs: -Infinity,
    };
  }

  function end(call: QueuedCall, json: string): void {
    open.delete(call.id);
    ports.sendOutcome(call.id, json);
  }

  function put(queue: ToolQueue, call: QueuedCall): void {
    (call.repeated ? queue.alone : queue.waiting).add(call);
    queue.pool.ready.add(queue);
    watch ??= setInterval(look, WATCH_EVERY_MS);
  }

  /** Takes up to `most` calls from the front. */
  function take(from: Set<QueuedCall>, most: number): QueuedCall[] {
    const group: QueuedCall[] = [];
    let chars = 0;
    for (const call of from) {
      if (group.length >= most || chars >= GROUP_CHARS_MAX) break;
      from.delete(call);
      group.push(call);
      chars += call.json.length;
    }
    return group;
  }

  /** Returns the maximum threads of the tool. A module that could not be imported is tried in one at a time, with pauses. */
  function threadsMaxOf({ importFailures, importFailedMs, pool }: ToolQueue): number {
    if (importFailures === 0) return pool.threads.threadsPerTool;
    return performance.now() - importFailedMs < IMPORT_PAUSE_MS ? 0 : 1;
  }

  /** Whether a thread is about to come free, so that no other has to be started. */
  function isReleasing({ threads, sessions }: PoolState): boolean {
    if (threads.threadsStarted() > sessions.size) return false;
    const sinceMs = performance.now() - END_WAIT_MS;
    return [...sessions.keys()].some(({ endingMs = -Infinity }) => endingMs > sinceMs);
  }

  /** Returns the calls to hand to one of `threads`: slow calls are spread over them. */
  function shareOf({ tool, waiting }: ToolQueue, threads: number): number {
    return tool.speed === 'fast' ? slots : Math.min(slots, Math.ceil(waiting.size / threads));
  }

  /** Hands waiting calls to a session with room for at least `room` calls. */
  function feed(queue: ToolQueue, session: Session, room: number): void {
    if (session.draining || queue.waiting.size === 0 || queue.aloneCalls > 0) return;
    const free = slots - session.size;
    if (free >= room) session.post(take(queue.waiting, Math.min(free, shareOf(queue, queue.sessions.size))));
  }

  /** Starts a session for waiting calls of the tool, if it may have another thread. */
  function begin(queue: ToolQueue): boolean {
    const { pool, tool } = queue;
    const threadsLeft = threadsMaxOf(queue) - queue.sessions.size;
    if (pool.sessions.size >= pool.threads.threadsMax || threadsLeft <= 0) return false;
    if (queue.alone.size + queue.waiting.size === 0 || isReleasing(pool)) return false;
    const isAlone = queue.alone.size > 0 || queue.aloneCalls > 0;
    const from = queue.alone.size > 0 ? queue.alone : queue.waiting;
    if (from === queue.waiting && isAlone) queue.aloneCalls -= 1;
    const session: Session = startSession({
      tool,
      pool: pool.threads,
      settings,
      announce: ports.sendStarting,
      onOutcome: end,
      onRoom: () => {
        feed(queue, session, Math.ceil(slots / 2));
        if (session.size === 0) session.end();
      },
      onLost: () => {
        queue.aloneCalls = ALONE_CALLS;
      },
      onImport: (failure) => onImport(queue, failure),
      onEnd: (again) => {
        pool.sessions.delete(session);
        queue.sessions.delete(session);
        for (const call of again) put(queue, call);
        if (queue.importFailures >= IMPORT_FAILURES_MAX) endNotImported(queue);
        checkStuck();
        fill(pool);
      },
      log: ports.log,
    });
    session.draining = isAlone;
    pool.sessions.set(session, queue);
    queue.sessions.add(session);
    session.post(take(from, isAlone ? 1 : shareOf(queue, threadsLeft)));
    comeLast(queue);
    return true;
  }

  function onImport(queue: ToolQueue, failure: string | undefined): void {
    queue.importFailures = failure === undefined ? 0 : queue.importFailures + 1;
    if (failure === undefined) return;
    queue.importReason = failure;
    queue.importFailedMs = performance.now();
    const line = failure.replaceAll(/\s*[\r\n]+\s*/g, ' ');
    ports.log(`a thread could not import the module of ${queue.tool.name} and is ended: ${line}`);
  }

  function endNotImported({ tool, alone, waiting, importReason }: ToolQueue): void {
    const calls = [...alone, ...waiting];
    alone.clear();
    waiting.clear();
    const reason = `the module of ${tool.name} could not be imported by a new thread (${importReason})`;
    for (const call of calls) end(call, outcomeJson('failed', call.repeated, reason));
  }

  function checkStuck(): void {
    const all = Object.values(pools);
    const stuck = all.reduce((sum, pool) => sum + pool.stuckThreads(), 0);
    const threads = all.reduce((sum, pool) => sum + pool.threadsMax, 0);
    if (stuck >= threads) ports.giveUp('all threads are stuck in native code');
  }

  /** Starts sessions until no thread is free or no call waits; then makes room for tools without a thread. */
  function fill(pool: PoolState): void {
    for (const queue of pool.ready) for (const session of queue.sessions) feed(queue, session, 1);
    let isFull = false;
    while (!isFull) {
      const fewestFirst = [...pool.ready].sort((a, b) => sessionsOf(a) - sessionsOf(b));
      isFull = !fewestFirst.some(begin);
    }
    for (const queue of pool.ready) if (queue.waiting.size + queue.alone.size === 0) pool.ready.delete(queue);
    if (pool.sessions.size < pool.threads.threadsMax) return;
    const starving = [...pool.ready].filter((queue) => sessionsOf(queue) === 0).length;
    const taking = [...pool.sessions].filter(([{ draining }]) => !draining);
    const draining = pool.sessions.size - taking.length;
    for (const [session, queue] of taking.slice(0, Math.max(0, starving - draining))) {
      session.draining = true;
      comeLast(queue);
    }
  }

  /** Returns the number of threads that the tool has and keeps. */
  function sessionsOf({ sessions }: ToolQueue): number {
    return [...sessions].filter(({ endingMs }) => endingMs === undefined).length;
  }

  function comeLast(queue: ToolQueue): void {
    if (queue.pool.ready.delete(queue)) queue.pool.ready.add(queue);
  }

  function look(): void {
    const nowMs = performance.now();
    for (const pool of Object.values(states)) {
      for (const session of pool.sessions.keys()) session.look(nowMs);
      fill(pool);
    }
    if (Object.values(states).some(({ sessions, ready }) => sessions.size + ready.size > 0)) return;
    clearInterval(watch);
    watch = undefined;
  }

  return {
    enqueue(calls) {
      for (const { id, tool_name, timeout_ms, frame, repeated } of calls) {
        const queue = queues.get(tool_name);
        if (queue?.tool.concurrency !== null) {
          ports.sendOutcome(id, outcomeJson('failed', repeated, explainRefused(tool_name, queue?.tool)));
          continue;
        }
        const call: QueuedCall = {
          id,
          toolName: tool_name,
          timeoutMs: timeout_ms,
          json: frame,
          repeated,
          interruptions: 0,
          cancelled: false,
        };
        open.set(id, call);
        put(queue, call);
      }
      for (const pool of Object.values(states)) fill(pool);
    },
    cancel(id) {
      const call = open.get(id);
      const queue = queues.get(call?.toolName ?? '');
      if (call === undefined || queue === undefined) return;
      call.cancelled = true;
      if (queue.waiting.delete(call) || queue.alone.delete(call)) end(call, givenUpOutcome(call, false));
      else for (const session of queue.sessions) session.cancel(id);
    },
  };
}

/** Returns the error text of a call of a module that no thread may run. */
function explainRefused(toolName: string, tool: ToolManifest | undefined): string {
  return tool === undefined
    ? `Tool not found: ${toolName}. It has no module here any more; go on without it.`
    : `${toolName} exports concurrency, so another process runs it; the threads of this host do not.`;
}
