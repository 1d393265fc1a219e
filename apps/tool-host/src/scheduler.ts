import { BroadcastChannel } from 'node:worker_threads';
import { ERROR_CHARS_MAX, type ToolCallStatus, type ToolCatalog, type ToolManifest } from './contract.ts';
import { explainGivenUp, explainNotImported } from './explain.ts';
import { createFifo, type Fifo } from './fifo.ts';
import {
  afterFailure,
  afterSuccess,
  isHopeless,
  isOnTrial,
  mayBegin,
  type ImportTrouble,
} from './import-trouble.ts';
import {
  FAST_TASK_MS,
  fastTaskCallsMax,
  isolate,
  laneOf,
  learn,
  newProfile,
  slowTaskCalls,
  type Lane,
  type ToolProfile,
} from './lanes.ts';
import type { CallEnvelope, HostSettings, OutcomeFrame } from './protocol.ts';
import { startTask, type CallEnd, type QueuedCall, type RunningTask } from './running-task.ts';
import type { ThreadEnd } from './settle.ts';
import { CANCEL_CHANNEL, type ThreadReport } from './task.ts';
import { cutText } from './text.ts';
import type { Threads } from './threads.ts';

/** Interval of looks at running tasks: the accuracy of a timeout that the thread cannot keep itself. Unit: milliseconds. */
const WATCH_EVERY_MS = 20;
/** Run time after which a fast task no longer counts against the fast threads. Unit: milliseconds. */
const DEMOTE_AFTER_MS = 100;
/**
 * Time in which the first task of a tool runs alone: for a fast tool, more tasks would start threads in vain. Unit:
 * milliseconds.
 */
const PROBE_MS = 50;
/** Maximum argument characters per task, because a thread's heap is small. */
const TASK_ARGUMENT_CHARS_MAX = 4 * 1024 * 1024;

/** The effects of the scheduler. */
export interface SchedulerPorts {
  readonly sendOutcomes: (outcomesJson: string) => void;
  /** Announces calls about to start; resolves once the announcement survives this process. */
  readonly sendStarting: (ids: readonly number[]) => Promise<void>;
  readonly log: (line: string) => void;
  /** Ends the host: too many threads are stuck in native code. */
  readonly giveUp: (reason: string) => void;
}

/** Groups waiting calls into tasks, keeps the lanes filled, and gives every call exactly one outcome. */
export interface Scheduler {
  /** Queues calls. `callsJson` holds the calls of the envelopes, one after the other. */
  enqueue(envelopes: readonly CallEnvelope[], callsJson: Buffer): void;
  /** Cancels calls: waiting calls end at once, running calls are signalled and stopped half a second later. */
  cancel(ids: readonly number[]): void;
  /** Sets the tools and threads. Called once, before the first call. */
  use(catalog: ToolCatalog, threads: Threads): void;
  /** Takes the reports of the threads. */
  onReport(report: ThreadReport): void;
}

interface ToolQueue {
  readonly name: string;
  readonly profile: ToolProfile;
  readonly waiting: Fifo<QueuedCall>;
  tool: ToolManifest | undefined;
  /** Start of its first task. */
  firstTaskMs: number | undefined;
  /** Undefined while every thread could import its module. */
  trouble: ImportTrouble | undefined;
}

/** Creates a scheduler without tools; {@link Scheduler.use} sets them. */
export function createScheduler(settings: HostSettings, ports: SchedulerPorts): Scheduler {
  const queues = new Map<string, ToolQueue>();
  /** Queues with waiting calls, least recently served first. */
  const ready = new Set<ToolQueue>();
  const alone = createFifo<QueuedCall>();
  /** Calls without an outcome. */
  const open = new Map<number, QueuedCall>();
  const tasks = new Map<number, RunningTask>();
  const cancellations = new BroadcastChannel(CANCEL_CHANNEL);
  let threads: Threads | undefined;
  let nextTask = 1;
  /** A call that runs alone has started: the next free slow thread is for other calls, if any wait. */
  let isTurnOfOthers = false;
  let watch: NodeJS.Timeout | undefined;

  function queueOf(name: string): ToolQueue {
    let queue = queues.get(name);
    if (queue === undefined) {
      queue = {
        name,
        profile: newProfile(),
        waiting: createFifo(),
        tool: undefined,
        firstTaskMs: undefined,
        trouble: undefined,
      };
      queues.set(name, queue);
    }
    return queue;
  }

  function putBack(call: QueuedCall): void {
    const queue = queueOf(call.toolName);
    if (queue.tool === undefined) {
      endWaiting(
        call,
        'failed',
        `Tool not found: ${call.toolName}. It has no module here any more; go on without it.`,
      );
      return;
    }
    queue.waiting.push(call);
    ready.add(queue);
  }

  function endNotImported({ name, trouble }: ToolQueue, call: QueuedCall): void {
    const error = explainNotImported(name, trouble?.reason ?? '');
    endWaiting(call, 'failed', cutText(error, ERROR_CHARS_MAX));
  }

  function onImported(queue: ToolQueue, begunMs: number): void {
    if (queue.trouble !== undefined) queue.trouble = afterSuccess(queue.trouble, begunMs);
  }

  function onNotImported(queue: ToolQueue, reason: string, begunMs: number): void {
    ports.log(
      `a thread could not import the module of ${queue.name} and is ended: ${reason.replaceAll(/\s*[\r\n]+\s*/g, ' ')}`,
    );
    queue.trouble = afterFailure(queue.trouble, reason, begunMs, performance.now());
    // A timer may be early by a fraction of a millisecond.
    setTimeout(fill, queue.trouble.restMs + 1);
    if (!isHopeless(queue.trouble)) return;
    ready.delete(queue);
    for (const call of queue.waiting.takeWhere(() => true)) endNotImported(queue, call);
    for (const call of alone.takeWhere(({ toolName }) => toolName === queue.name))
      endNotImported(queue, call);
  }

  function endWaiting(call: QueuedCall, status: ToolCallStatus, error: string): void {
    open.delete(call.id);
    const { id } = call;
    const outcome: OutcomeFrame = {
      id,
      status,
      result: error,
      truncated: false,
      duration_ms: 0,
      started: call.enteredBefore,
      error,
    };
    ports.sendOutcomes(JSON.stringify(outcome));
  }

  function runningIn(lane: 'fast' | 'slow'): number {
    let count = 0;
    for (const task of tasks.values()) if (task.lane === lane) count += 1;
    return count;
  }

  /** Starts tasks until the lanes are full or no call waits. */
  function fill(): void {
    if (threads === undefined) return;
    while (tasks.size < threads.threadsMax) {
      const freeSlow = threads.lanes.slow - runningIn('slow');
      const freeFast = threads.lanes.fast - runningIn('fast');
      // Thousands of calls may have to run alone: calls of other tools do not wait for all of them.
      const others = isTurnOfOthers && freeSlow > 0 ? takeSlow() : [];
      if (others.length > 0) {
        isTurnOfOthers = false;
        begin(others, 'slow', threads);
        continue;
      }
      const suspect = freeSlow > 0 ? takeSuspect() : undefined;
      if (suspect !== undefined) {
        isTurnOfOthers = true;
        begin([suspect], 'slow', threads);
        continue;
      }
      const fast = freeFast > 0 ? takeFast(freeFast) : [];
      if (fast.length > 0) {
        begin(fast, 'fast', threads);
        continue;
      }
      const slow = freeSlow > 0 ? takeSlow() : [];
      if (slow.length > 0) {
        begin(slow, 'slow', threads);
        continue;
      }
      const onTrial = freeFast > 0 ? takeSlow('fast') : [];
      if (onTrial.length === 0) return;
      begin(onTrial, 'fast', threads);
    }
  }

  /** Takes the first call that must run alone and whose module is not on trial. */
  function takeSuspect(): QueuedCall | undefined {
    const nowMs = performance.now();
    for (let count = alone.size; count > 0; count -= 1) {
      const call = alone.shift() as QueuedCall;
      if (mayBegin(queueOf(call.toolName).trouble, nowMs)) return call;
      alone.push(call);
    }
    return undefined;
  }

  /** Takes fast calls of any tools; `once` calls share a thread only with each other. */
  function takeFast(freeThreads: number): QueuedCall[] {
    const fastQueues = [...ready].filter(isFast);
    const waiting = fastQueues.reduce((sum, queue) => sum + queue.waiting.size, 0);
    const callsMax = fastTaskCallsMax(waiting, freeThreads);
    const batch: QueuedCall[] = [];
    let workMs = 0;
    let chars = 0;
    const hasRoom = (): boolean =>
      batch.length < callsMax && workMs < FAST_TASK_MS && chars < TASK_ARGUMENT_CHARS_MAX;
    for (const queue of fastQueues) {
      // A skipped queue keeps its place before the queues that were served.
      if (!hasRoom()) break;
      const once = queue.tool?.side_effects === 'once';
      if (once && batch.length > 0) continue;
      while (hasRoom()) {
        const call = queue.waiting.shift();
        if (call === undefined) break;
        batch.push(call);
        workMs += queue.profile.durationMs;
        chars += call.json.length;
      }
      rotate(queue);
      if (once && batch.length > 0) break;
    }
    return batch;
  }

  /** Takes calls of one tool for a task of their own; with `lane`, only of a tool that its trial moved from that lane. */
  function takeSlow(lane?: Lane): QueuedCall[] {
    const nowMs = performance.now();
    for (const queue of ready) {
      if (isFast(queue) || isProbed(queue, nowMs) || !mayBegin(queue.trouble, nowMs)) continue;
      if (lane !== undefined && laneOf(queue.profile) !== lane) continue;
      queue.firstTaskMs ??= nowMs;
      const batch: QueuedCall[] = [];
      let chars = 0;
      const once = queue.tool?.side_effects === 'once';
      const callsMax = slowTaskCalls(queue.profile, settings.calls_in_flight_per_thread, once);
      while (batch.length < callsMax && chars < TASK_ARGUMENT_CHARS_MAX) {
        const call = queue.waiting.shift();
        if (call === undefined) break;
        batch.push(call);
        chars += call.json.length;
      }
      queue.profile.aloneCalls = Math.max(0, queue.profile.aloneCalls - batch.length);
      rotate(queue);
      return batch;
    }
    return [];
  }

  /** Whether the first task of the tool still has time to prove the tool fast. */
  function isProbed({ profile, firstTaskMs }: ToolQueue, nowMs: number): boolean {
    if (profile.samples > 0 || firstTaskMs === undefined || tasks.size === 0) return false;
    return nowMs - firstTaskMs < PROBE_MS;
  }

  function rotate(queue: ToolQueue): void {
    ready.delete(queue);
    if (queue.waiting.size > 0) ready.add(queue);
  }

  function begin(calls: readonly QueuedCall[], lane: 'fast' | 'slow', pool: Threads): void {
    const number = nextTask;
    nextTask += 1;
    const begunMs = performance.now();
    const tools = new Map<string, ToolManifest>();
    for (const { toolName } of calls) {
      const queue = queueOf(toolName);
      if (queue.tool !== undefined) tools.set(toolName, queue.tool);
      if (isOnTrial(queue.trouble)) queue.trouble = { ...queue.trouble, trial: number };
    }
    const once = [...tools.values()].some((tool) => tool.side_effects === 'once');
    const announced = ports.sendStarting(calls.map((call) => call.id));
    const task = startTask({
      number,
      calls,
      tools: [...tools.values()],
      lane,
      threads: pool,
      settings,
      // Only `once` calls must wait until the announcement has left this process.
      mayStart: once ? announced : undefined,
      onEntered: ({ toolName }) => onImported(queueOf(toolName), begunMs),
      onMeasured: (call, durationMs, busyMs) => {
        const queue = queueOf(call.toolName);
        learn(queue.profile, durationMs, busyMs);
        // The task may have ended unseen.
        onImported(queue, begunMs);
      },
      onNotImported: (toolName, reason) => onNotImported(queueOf(toolName), reason, begunMs),
      onLost: (call) => isolate(queueOf(call.toolName).profile),
      onOutcomes: (ended, outcomesJson) => {
        for (const call of ended) open.delete(call.id);
        ports.sendOutcomes(outcomesJson);
      },
      onEnd: (unfinished) => endTask(number, pool, unfinished),
      log: ports.log,
    });
    tasks.set(number, task);
    watch ??= setInterval(watchTasks, WATCH_EVERY_MS);
  }

  function endTask(number: number, pool: Threads, unfinished: readonly CallEnd[]): void {
    tasks.delete(number);
    for (const queue of queues.values()) {
      if (queue.trouble?.trial === number) queue.trouble = { ...queue.trouble, trial: undefined };
    }
    for (const { call, again } of unfinished) {
      const queue = queueOf(call.toolName);
      if (isHopeless(queue.trouble)) endNotImported(queue, call);
      else if (again === 'alone') alone.push(call);
      else putBack(call);
    }
    if (pool.stuckThreads() >= pool.threadsMax) ports.giveUp('all threads are stuck in native code');
    fill();
  }

  function watchTasks(): void {
    if (tasks.size === 0) {
      clearInterval(watch);
      watch = undefined;
      return;
    }
    const nowMs = performance.now();
    for (const task of tasks.values()) {
      const end: ThreadEnd | undefined = task.look(nowMs);
      if (end !== undefined) task.stop(end);
      else if (task.lane === 'fast' && nowMs - task.postedMs > DEMOTE_AFTER_MS) task.lane = 'slow';
    }
    fill();
  }

  return {
    enqueue(envelopes, callsJson) {
      let offset = 0;
      for (const [id, toolName, timeoutMs, bytes, interrupted] of envelopes) {
        const wasInterrupted = interrupted === 1;
        const call: QueuedCall = {
          id,
          toolName,
          timeoutMs,
          // A copy: a slice of the common string would keep all of it in memory while one call is open.
          json: callsJson.toString('utf8', offset, offset + bytes),
          interruptions: 0,
          neighbours: 0,
          enteredBefore: wasInterrupted,
          retried: wasInterrupted,
          cancelled: false,
        };
        offset += bytes;
        open.set(id, call);
        if (wasInterrupted && queueOf(toolName).tool !== undefined) alone.push(call);
        else putBack(call);
      }
      fill();
    },
    cancel(ids) {
      const running: number[] = [];
      const given = new Set<QueuedCall>();
      for (const id of ids) {
        const call = open.get(id);
        if (call === undefined) continue;
        call.cancelled = true;
        given.add(call);
        running.push(id);
      }
      const isGiven = (call: QueuedCall): boolean => given.has(call);
      for (const queue of [...ready].map(({ waiting }) => waiting).concat(alone)) {
        for (const call of queue.takeWhere(isGiven))
          endWaiting(call, 'crashed', explainGivenUp(call.enteredBefore));
      }
      for (const queue of ready) if (queue.waiting.size === 0) ready.delete(queue);
      for (const task of tasks.values()) task.noticeCancellation(performance.now());
      if (running.length > 0) cancellations.postMessage(running);
    },
    use(catalog, pool) {
      threads = pool;
      for (const tool of catalog.tools) queueOf(tool.name).tool = tool;
    },
    onReport(report) {
      tasks.get(report.task)?.onReport(report);
    },
  };
}

/** Whether calls of the tool share tasks with other tools. */
function isFast({ profile, trouble }: ToolQueue): boolean {
  return laneOf(profile) === 'fast' && !isOnTrial(trouble);
}
