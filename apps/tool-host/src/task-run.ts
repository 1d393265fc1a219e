import type { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import type { ToolCallStatus, ToolContext } from './contract.ts';
import { explainGivenUp } from './explain.ts';
import { contextOf, type LiveCall } from './live-call.ts';
import { loadedRun, loadRun } from './module.ts';
import {
  isGivenUp,
  markCulprit,
  markDone,
  markEntered,
  markGivenBack,
  markLoading,
  markReturned,
  markLeftover,
  markThread,
  type Progress,
} from './progress.ts';
import type { CallFrame, OutcomeFrame } from './protocol.ts';
import type { ImportFailure, TaskTool, ThreadReport, ThreadTask } from './task.ts';
import { describeError, resultText } from './text.ts';

/** Maximum delay of an outcome before it is reported: a stuck thread loses no more than this. Unit: milliseconds. */
const REPORT_DELAY_MS = 1;
/** Maximum unreported text. */
const REPORT_CHARS_MAX = 256 * 1024;
/** Milliseconds without a turn of the event loop after which timers and sockets of running calls get a turn. */
const TURN_EVERY_MS = 10;
/** Turns of the event loop in which an answer already received at the timeout may still reach its call. */
const TURNS_BEFORE_TIMEOUT = 2;
/** Share of busy time above which a call may have timed out because of its neighbours. */
const BUSY_PART_MAX = 0.25;
/** Time for a timed-out tool to react to its signal before its thread is stopped. Unit: milliseconds. */
const ABANDON_GRACE_MS = 100;

/** A task running in this thread. */
export interface TaskRun {
  /**
   * Resolves when every call has its outcome or is given back. Never resolves if timed-out functions are still running or a
   * module could not be imported.
   */
  finish(): Promise<ThreadReport>;
  /** Fires the signals of these calls. Calls not yet entered are skipped. */
  cancel(ids: ReadonlySet<number>): void;
  /** Reports finished calls before the thread ends. `call`: the cause, if it is still running. */
  blame(call: LiveCall | undefined): void;
}

interface Surroundings {
  readonly threadId: number;
  readonly callInProgress: AsyncLocalStorage<LiveCall>;
  readonly post: (report: ThreadReport) => void;
}

/** Prepares a task; it starts with `finish`. */
export function startTaskRun(task: ThreadTask, surroundings: Surroundings): TaskRun {
  const progress: Progress = { cells: task.cells, slots: task.slots };
  markThread(progress, surroundings.threadId);
  const calls = JSON.parse(task.calls_json) as readonly CallFrame[];
  const live = new Set<LiveCall>();
  const freeSlots = Array.from({ length: task.slots }, (_, slot) => slot);
  let outbox = emptyOutbox();
  let lastReportMs = performance.now();
  let reportPlanned = false;
  let lastTurnMs = lastReportMs;
  let abandoned = 0;
  /** Busy time of the thread that is charged to calls, and the time before them. */
  let chargedMs = busyMsOfThread();
  let wakeLoop: (() => void) | undefined;

  /**
   * Charges a yielded call with the thread's busy time since the last charge. Part of it may be a neighbour's, which is
   * charged less: the average over a tool's calls is right.
   */
  function charge(call: LiveCall): void {
    const nowMs = busyMsOfThread();
    call.busyMs += Math.max(0, nowMs - chargedMs);
    chargedMs = nowMs;
  }

  function takeReport(stopThread = false): ThreadReport {
    const report: ThreadReport = { task: task.task, ...outbox, stop_thread: stopThread };
    outbox = emptyOutbox();
    lastReportMs = performance.now();
    return report;
  }

  function report(): void {
    if (outbox.indexes.length > 0) surroundings.post(takeReport());
  }

  /**
   * Plans a report of outcomes that arrive while the loop below sleeps. Outcomes of one turn are sent together; an outcome
   * after a long computation does not wait for the next.
   */
  function planReport(): void {
    if (performance.now() - lastReportMs > REPORT_DELAY_MS) report();
    if (reportPlanned) return;
    reportPlanned = true;
    setImmediate(() => {
      reportPlanned = false;
      report();
    });
  }

  function record(index: number, outcome: OutcomeFrame, durationMs: number | null, busyMs: number): void {
    outbox.indexes.push(index);
    outbox.durations_ms.push(durationMs);
    outbox.busy_ms.push(busyMs);
    const json = JSON.stringify(outcome);
    outbox.outcomes_json = outbox.outcomes_json === '' ? json : `${outbox.outcomes_json},${json}`;
    if (outbox.outcomes_json.length > REPORT_CHARS_MAX) report();
  }

  function end(call: LiveCall, status: ToolCallStatus, result: string, truncated: boolean): void {
    if (call.ended) return;
    call.ended = true;
    if (live.has(call)) charge(call);
    const { id } = call.frame;
    const duration_ms = roundMs(performance.now() - call.startedMs);
    const outcome: OutcomeFrame =
      status === 'succeeded'
        ? { id, status, result, truncated, duration_ms, started: true }
        : { id, status, result, truncated, duration_ms, started: true, error: result };
    record(call.index, outcome, duration_ms, call.busyMs);
    // The outcome of a `once` call is reported before anything else can fail in this thread.
    if (call.tool.once) report();
    markDone(progress, call.index, call.slot);
  }

  function succeed(call: LiveCall, value: unknown): void {
    const limit = call.frame.result_char_limit ?? call.tool.result_char_limit;
    try {
      const { text, truncated } = resultText(value, limit);
      end(call, 'succeeded', text, truncated);
    } catch (error) {
      fail(call, error);
    }
  }

  function fail(call: LiveCall, error: unknown): void {
    end(call, 'failed', describeError(error), false);
  }

  /** Gives the call its outcome at once. */
  function interrupt(call: LiveCall, status: ToolCallStatus, reason: Error): void {
    end(call, status, describeError(reason), false);
    abandon(call, reason);
    planReport();
  }

  /** Leaves the call without an outcome, to run again after this task has ended. */
  function giveBack(call: LiveCall, reason: Error): void {
    charge(call);
    call.ended = true;
    outbox.given_back.push(call.index);
    markGivenBack(progress, call.slot);
    abandon(call, reason);
  }

  /** Frees the slot of a call whose function may go on. */
  function abandon(call: LiveCall, reason: Error): void {
    abandoned += 1;
    call.abortReason = reason;
    call.controller?.abort(reason);
    release(call);
  }

  function enter(index: number, frame: CallFrame, tool: TaskTool, run: (...args: never[]) => unknown): void {
    const slot = freeSlots.pop() as number;
    const call: LiveCall = {
      index,
      slot,
      frame,
      tool,
      startedMs: performance.now(),
      label: `${tool.name} ${frame.tool_use_id}`,
      printedChars: 0,
      busyMs: 0,
      threadBusyMs: 0,
      controller: undefined,
      abortReason: undefined,
      ended: false,
    };
    let pending: Promise<unknown> | undefined;
    markEntered(progress, index, slot);
    try {
      const value = surroundings.callInProgress.run(
        call,
        run as (args: unknown, context: ToolContext) => unknown,
        frame.arguments,
        contextOf(call),
      );
      call.busyMs = performance.now() - call.startedMs;
      if (isThenable(value)) pending = Promise.resolve(value);
      else succeed(call, value);
    } catch (error) {
      call.busyMs = performance.now() - call.startedMs;
      fail(call, error);
    }
    markReturned(progress);
    chargedMs += call.busyMs;
    if (pending === undefined) {
      freeSlots.push(slot);
    } else {
      live.add(call);
      void settleLater(call, pending);
    }
  }

  async function settleLater(call: LiveCall, pending: Promise<unknown>): Promise<void> {
    const timeoutMs = call.frame.timeout_ms ?? call.tool.timeout_ms;
    call.threadBusyMs = busyMsOfThread();
    const timer = setTimeout(() => void timeOut(call, timeoutMs), Math.max(1, timeoutMs - call.busyMs));
    try {
      const value = await pending;
      if (!call.ended) succeed(call, value);
    } catch (error) {
      if (!call.ended) fail(call, error);
    }
    clearTimeout(timer);
    if (call.abortReason !== undefined) {
      abandoned -= 1;
      wakeLoop?.();
    } else {
      release(call);
      planReport();
    }
  }

  /** Times out a call. Timers run before I/O, so an answer received while a neighbour blocked the thread is taken first. */
  async function timeOut(call: LiveCall, timeoutMs: number): Promise<void> {
    for (let turn = 0; turn < TURNS_BEFORE_TIMEOUT; turn += 1) await nextTurn();
    // A cancelled call has freed its slot: two calls in one slot would leave one without a timeout.
    if (call.ended) return;
    const reason = new DOMException(`${call.tool.name} ran longer than ${timeoutMs} ms`, 'TimeoutError');
    if (mayBlameNeighbours(call, timeoutMs)) giveBack(call, reason);
    else interrupt(call, 'timed_out', reason);
  }

  /** Whether neighbours may have used the call's time. A repeated call is alone in its task, so it has none. */
  function mayBlameNeighbours(call: LiveCall, timeoutMs: number): boolean {
    if (call.tool.once || calls.length === 1) return false;
    return busyMsOfThread() - call.threadBusyMs > timeoutMs * BUSY_PART_MAX;
  }

  function release(call: LiveCall): void {
    live.delete(call);
    freeSlots.push(call.slot);
    wakeLoop?.();
  }

  function skipGivenUp(index: number, { id, entered_before }: CallFrame): void {
    const started = entered_before === true;
    const error = explainGivenUp(started);
    record(
      index,
      { id, status: 'crashed', result: error, truncated: false, duration_ms: 0, started, error },
      null,
      0,
    );
    markDone(progress, index, undefined);
  }

  /** Imports modules new to this thread; a failed module yields undefined and is reported to the host. */
  async function loadTools(): Promise<readonly (((...args: never[]) => unknown) | undefined)[]> {
    const runs: (((...args: never[]) => unknown) | undefined)[] = [];
    for (const [index, tool] of task.tools.entries()) {
      const loaded = loadedRun(tool.file);
      if (loaded !== undefined) {
        runs.push(loaded);
        continue;
      }
      markLoading(progress, index);
      const run = await loadRun(tool.file).catch((error: unknown) => {
        outbox.not_imported.push({ tool: index, reason: describeError(error) });
        return undefined;
      });
      runs.push(run);
      markLoading(progress, undefined);
    }
    if (outbox.not_imported.length > 0) surroundings.post(takeReport());
    return runs;
  }

  async function sleepUntilChange(): Promise<void> {
    report();
    await new Promise<void>((resolve) => {
      wakeLoop = resolve;
    });
    wakeLoop = undefined;
    lastTurnMs = performance.now();
  }

  async function finish(): Promise<ThreadReport> {
    const runs = await loadTools();
    chargedMs = busyMsOfThread();

    for (const [index, frame] of calls.entries()) {
      while (freeSlots.length === 0) await sleepUntilChange();
      const nowMs = performance.now();
      if (nowMs - lastReportMs > REPORT_DELAY_MS) report();
      if (nowMs - lastTurnMs > TURN_EVERY_MS) {
        await nextTurn();
        lastTurnMs = performance.now();
      }
      const toolIndex = task.tool_of_call[index] as number;
      const tool = task.tools[toolIndex] as TaskTool;
      const run = runs[toolIndex];
      if (isGivenUp(progress, index)) skipGivenUp(index, frame);
      else if (run !== undefined) enter(index, frame, tool, run);
    }

    while (live.size > 0) await sleepUntilChange();
    if (abandoned > 0) {
      report();
      const patience = wait(ABANDON_GRACE_MS);
      while (abandoned > 0) {
        const noticed = new Promise<'noticed'>((resolve) => {
          wakeLoop = () => resolve('noticed');
        });
        if ((await Promise.race([noticed, patience])) !== 'noticed') break;
      }
    }
    // A failed import fails again whenever this thread repeats it.
    if (abandoned > 0 || runs.includes(undefined)) {
      // The host stops the thread on this report; returning would first give the thread the next task.
      surroundings.post(takeReport(true));
      await new Promise<never>(() => {});
    }
    return takeReport();
  }

  return {
    finish,
    cancel(ids) {
      const reason = new DOMException('the caller gave up', 'AbortError');
      for (const call of live) {
        if (!ids.has(call.frame.id)) continue;
        interrupt(call, 'crashed', reason);
      }
    },
    blame(call) {
      if (call !== undefined) {
        const isOurs = calls[call.index]?.id === call.frame.id;
        if (isOurs && !call.ended) markCulprit(progress, call.index);
        else markLeftover(progress);
      }
      report();
    },
  };
}

interface Outbox {
  indexes: number[];
  durations_ms: (number | null)[];
  busy_ms: number[];
  outcomes_json: string;
  given_back: number[];
  not_imported: ImportFailure[];
}

function emptyOutbox(): Outbox {
  return { indexes: [], durations_ms: [], busy_ms: [], outcomes_json: '', given_back: [], not_imported: [] };
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  );
}

/** Returns the busy milliseconds of this thread's event loop since its start. */
function busyMsOfThread(): number {
  return performance.eventLoopUtilization().active;
}

function roundMs(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
