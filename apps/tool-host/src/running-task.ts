import { ERROR_CHARS_MAX, type ToolManifest } from './contract.ts';
import { describeCrash, describeEnd, withoutWords, explain, outOfMemory } from './explain.ts';
import {
  createProgress,
  isLeftover,
  markGivenUp,
  readCall,
  readCulprit,
  readLoading,
  readRunning,
  readSlot,
  readThread,
} from './progress.ts';
import type { HostSettings, OutcomeFrame } from './protocol.ts';
import { settleUnfinished, type ThreadEnd } from './settle.ts';
import type { TaskTool, ThreadReport } from './task.ts';
import { cutText } from './text.ts';
import type { Threads } from './threads.ts';

/** Milliseconds after its timeout at which a yielded call is ended from outside, because its thread has not done it. */
const DEADLINE_SLACK_MS = 250;
/** Timeout for a thread to begin its task. Unit: milliseconds. */
const START_TIMEOUT_MS = 15_000;
/** Milliseconds after which a thread with waiting calls and none running counts as blocked by code of an ended call. */
const STUCK_AFTER_MS = 5_000;
/** Interval of memory checks: a tool that allocates a gigabyte per second gets 50 MB further. Unit: milliseconds. */
const MEMORY_EVERY_MS = 50;
/** Grace for cancelled calls to end by themselves. Unit: milliseconds. */
const CANCEL_GRACE_MS = 500;
/** Timeout for reports sent before a task returned, which come over another channel. Unit: milliseconds. */
const LATE_REPORT_MS = 2_000;

/** A call without an outcome. */
export interface QueuedCall {
  readonly id: number;
  readonly toolName: string;
  /** The call's own timeout, or 0 for its tool's. */
  readonly timeoutMs: number;
  readonly json: string;
  /** Ends of its thread under it without another known culprit. */
  interruptions: number;
  /** Ends of its thread with another culprit. */
  neighbours: number;
  /** Whether its function was entered before. */
  enteredBefore: boolean;
  /** Whether it was interrupted after it was entered, without an outcome. */
  retried: boolean;
  cancelled: boolean;
}

/** A call left by the task, and its destination. */
export interface CallEnd {
  readonly call: QueuedCall;
  readonly again: 'queue' | 'alone';
}

export interface RunningTask {
  readonly postedMs: number;
  lane: 'fast' | 'slow';
  /** Reads the thread's progress; returns the reason to stop it, if any. */
  look(nowMs: number): ThreadEnd | undefined;
  /** Stops the thread and decides about each unfinished call; `detail` explains a `crash`. */
  stop(end: ThreadEnd, detail?: string): void;
  /** Called before the threads are told of cancelled calls, so that a call entered meanwhile is cancelled too. */
  noticeCancellation(nowMs: number): void;
  onReport(report: ThreadReport): void;
}

interface TaskParts {
  readonly number: number;
  readonly calls: readonly QueuedCall[];
  readonly tools: readonly ToolManifest[];
  readonly lane: 'fast' | 'slow';
  readonly threads: Threads;
  readonly settings: HostSettings;
  readonly mayStart: Promise<void> | undefined;
  /** The call was seen running. Short calls may end unseen between two looks. */
  readonly onEntered: (call: QueuedCall) => void;
  readonly onMeasured: (call: QueuedCall, durationMs: number, busyMs: number) => void;
  /** The thread could not import the module of this tool, or ended during the import. */
  readonly onNotImported: (toolName: string, reason: string) => void;
  /** A thread ended under this `once` call. */
  readonly onLost: (call: QueuedCall) => void;
  readonly onOutcomes: (ended: readonly QueuedCall[], outcomesJson: string) => void;
  /** Called once, last, with the calls to run again. */
  readonly onEnd: (unfinished: readonly CallEnd[]) => void;
  readonly log: (line: string) => void;
}

interface Seen {
  call: number | undefined;
  sinceMs: number;
}

/** Posts a task to a thread and follows it until each call has an outcome or is given back. */
export function startTask(parts: TaskParts): RunningTask {
  const { calls, tools, threads, settings } = parts;
  const slots = Math.min(settings.calls_in_flight_per_thread, calls.length);
  const progress = createProgress(calls.length, slots);
  const stopSignal = new AbortController();
  const postedMs = performance.now();
  const toolIndex = new Map(tools.map((tool, index) => [tool.name, index]));
  const hasOutcome = new Uint8Array(calls.length);
  /** Calls with neither an outcome nor a notice that there will be none. */
  let missing = calls.length;
  let givenBack = 0;
  let returned = false;
  let stopping: { readonly end: ThreadEnd; readonly detail: string } | undefined;
  let ended = false;
  let cancelledMs: number | undefined;
  let loading: Seen = { call: undefined, sinceMs: postedMs };
  const seenInSlot = Array.from({ length: slots }, (): Seen => ({ call: undefined, sinceMs: postedMs }));
  const overdue = new Set<number>();
  /** Failures of imports by tool index. */
  const notImported = new Map<number, string>();
  let lastBusyMs: number | undefined;
  let memoryAskedMs = postedMs;
  let memoryAsked = false;

  function toolOf(index: number): ToolManifest {
    const call = calls[index] as QueuedCall;
    return tools[toolIndex.get(call.toolName) as number] as ToolManifest;
  }

  function timeoutOf(index: number): number {
    return (calls[index] as QueuedCall).timeoutMs || toolOf(index).timeout_ms;
  }

  async function post(): Promise<void> {
    let crash: unknown;
    try {
      if (parts.mayStart !== undefined) await parts.mayStart;
      const last = await threads.run(
        {
          task: parts.number,
          cells: progress.cells,
          slots,
          tools: tools.map(taskTool),
          calls_json: `[${calls.map(frameOf).join(',')}]`,
          tool_of_call: calls.map((call) => toolIndex.get(call.toolName) as number),
        },
        stopSignal.signal,
      );
      returned = true;
      task.onReport(last);
      if (missing > 0) setTimeout(() => settle('crash', 'reports of its thread were lost'), LATE_REPORT_MS);
      return;
    } catch (error) {
      crash = error;
    }
    await threads.whenExited(readThread(progress));
    const { end, detail } = stopping ?? { end: 'crash', detail: describeCrash(crash, settings) };
    if (end === 'crash' || end === 'stuck')
      parts.log(`a thread ended: ${withoutWords(detail)} (${suspects()})`);
    settle(end, detail);
  }

  /** Returns the tool whose call ended the thread; if unknown, all possible tools. */
  function suspects(): string {
    if (isLeftover(progress)) return 'code left running by an ended call';
    const culprit = readCulprit(progress);
    return culprit === undefined ? tools.map(({ name }) => name).join(', ') : toolOf(culprit).name;
  }

  function endIfComplete(): void {
    if (missing > 0 || !returned || ended) return;
    if (givenBack > 0) {
      settle('deadline', describeEnd('deadline', settings));
      return;
    }
    ended = true;
    parts.onEnd([]);
  }

  function settle(end: ThreadEnd, detail: string): void {
    if (ended) return;
    ended = true;
    const again: CallEnd[] = [];
    const outcomes: OutcomeFrame[] = [];
    const endedCalls: QueuedCall[] = [];
    const culprit = readCulprit(progress);
    const leftover = isLeftover(progress);
    // Calls that end here, or run again alone, explain the crash: they will not be there next time.
    const isExplained =
      end === 'deadline' || end === 'cancelled' || (end === 'crash' && culprit !== undefined);
    const loadingTool = readLoading(progress);
    if (loadingTool !== undefined && !leftover && (end === 'load_timeout' || end === 'crash'))
      noteNotImported(loadingTool, withoutWords(detail));
    for (const [index, call] of calls.entries()) {
      if (hasOutcome[index] === 1) continue;
      const tool = toolOf(index);
      const importFailure = notImported.get(toolIndex.get(tool.name) as number);
      const state = readCall(progress, index);
      const entered = state !== 'waiting';
      const isCulprit = culprit === index || (calls.length === 1 && !leftover);
      const settlement = settleUnfinished(end, {
        progress: state,
        side_effects: tool.side_effects,
        overdue: overdue.has(index),
        cancelled: call.cancelled,
        not_imported: importFailure !== undefined,
        culprit: isCulprit,
        leftover,
        interruptions: call.interruptions,
        neighbours: call.neighbours,
        retried: call.retried,
      });
      if (settlement.kind === 'ended') {
        const runMs = entered ? elapsedOf(index) : 0;
        // The message is shown only to the call that threw it: for others it is foreign data.
        const isOwn = settlement.why === 'culprit' && culprit === index;
        const told = isOwn ? detail : withoutWords(detail);
        const cause = settlement.why === 'module' ? (importFailure ?? told) : told;
        const error = cutText(explain(settlement.why, tool, timeoutOf(index), cause), ERROR_CHARS_MAX);
        endedCalls.push(call);
        outcomes.push({
          id: call.id,
          status: settlement.status,
          result: error,
          truncated: false,
          duration_ms: Math.round(runMs),
          started: entered || call.enteredBefore,
          error,
        });
        // For other calls the share of waiting in their time is unknown; usually it is most of it.
        if (entered) parts.onMeasured(call, runMs, isCulprit ? runMs : 0);
        if (entered && tool.side_effects === 'once' && end !== 'cancelled') parts.onLost(call);
      } else {
        if (isExplained) call.neighbours += 1;
        else call.interruptions += 1;
        if (entered) call.enteredBefore = true;
        if (settlement.kind === 'again_alone') call.retried = true;
        again.push({ call, again: call.retried ? 'alone' : 'queue' });
      }
    }
    if (outcomes.length > 0)
      parts.onOutcomes(endedCalls, outcomes.map((outcome) => JSON.stringify(outcome)).join(','));
    parts.onEnd(again);
  }

  function noteNotImported(tool: number, reason: string): void {
    notImported.set(tool, reason);
    parts.onNotImported((tools[tool] as ToolManifest).name, reason);
  }

  function elapsedOf(index: number): number {
    const seen = seenInSlot.find(({ call }) => call === index);
    return performance.now() - (seen?.sinceMs ?? postedMs);
  }

  function lookAtLoading(nowMs: number): ThreadEnd | undefined {
    const tool = readLoading(progress);
    if (tool !== loading.call) loading = { call: tool, sinceMs: nowMs };
    return tool !== undefined && nowMs - loading.sinceMs > settings.load_timeout_ms
      ? 'load_timeout'
      : undefined;
  }

  function lookAtSlots(nowMs: number): ThreadEnd | undefined {
    const running = readRunning(progress);
    for (const [slot, seen] of seenInSlot.entries()) {
      const call = readSlot(progress, slot);
      if (call !== seen.call) {
        seen.call = call;
        seen.sinceMs = nowMs;
        if (call !== undefined) parts.onEntered(calls[call] as QueuedCall);
      } else if (call !== undefined) {
        const slackMs = call === running ? 0 : DEADLINE_SLACK_MS;
        if (nowMs - seen.sinceMs > timeoutOf(call) + slackMs) overdue.add(call);
      }
    }
    return overdue.size > 0 ? 'deadline' : undefined;
  }

  function lookForLife(nowMs: number): ThreadEnd | undefined {
    const isBusy = loading.call !== undefined || seenInSlot.some(({ call }) => call !== undefined);
    if (isBusy || lastBusyMs === undefined) lastBusyMs = nowMs;
    return nowMs - lastBusyMs > STUCK_AFTER_MS ? 'stuck' : undefined;
  }

  function lookAtMemory(nowMs: number, threadId: number): void {
    if (memoryAsked || nowMs - memoryAskedMs < MEMORY_EVERY_MS) return;
    memoryAsked = true;
    memoryAskedMs = nowMs;
    void threads.memoryBytes(threadId).then((bytes = 0) => {
      memoryAsked = false;
      if (bytes > settings.thread_memory_mb * 1024 * 1024) task.stop('crash', outOfMemory(settings));
    });
  }

  const task: RunningTask = {
    postedMs,
    lane: parts.lane,
    look(nowMs) {
      if (stopping !== undefined || returned) return undefined;
      const threadId = readThread(progress);
      if (threadId === undefined) return nowMs - postedMs > START_TIMEOUT_MS ? 'no_start' : undefined;
      lookAtMemory(nowMs, threadId);
      if (cancelledMs !== undefined && nowMs - cancelledMs > CANCEL_GRACE_MS) return 'cancelled';
      return lookAtLoading(nowMs) ?? lookAtSlots(nowMs) ?? lookForLife(nowMs);
    },
    stop(end, detail = describeEnd(end, settings)) {
      if (stopping !== undefined || returned) return;
      stopping = { end, detail };
      stopSignal.abort();
    },
    noticeCancellation(nowMs) {
      let wanted = false;
      for (const [index, call] of calls.entries()) {
        if (call.cancelled) markGivenUp(progress, index);
        else if (hasOutcome[index] === 0) wanted = true;
      }
      if (!wanted) cancelledMs ??= nowMs;
    },
    onReport(report) {
      if (ended) return;
      const endedCalls: QueuedCall[] = [];
      for (const [position, index] of report.indexes.entries()) {
        const call = calls[index];
        if (call === undefined || hasOutcome[index] === 1) continue;
        hasOutcome[index] = 1;
        missing -= 1;
        endedCalls.push(call);
        const durationMs = report.durations_ms[position] ?? null;
        if (durationMs !== null) parts.onMeasured(call, durationMs, report.busy_ms[position] ?? 0);
      }
      if (endedCalls.length > 0) parts.onOutcomes(endedCalls, report.outcomes_json);
      givenBack += report.given_back.length;
      missing -= report.given_back.length;
      for (const { tool, reason } of report.not_imported) noteNotImported(tool, reason);
      if (report.stop_thread) task.stop(notImported.size > 0 ? 'not_imported' : 'deadline');
      endIfComplete();
    },
  };
  void post();
  return task;
}

/** Returns the {@link CallFrame} of a call as JSON. */
function frameOf({ json, enteredBefore }: QueuedCall): string {
  return enteredBefore ? `${json.slice(0, -1)},"entered_before":true}` : json;
}

function taskTool(tool: ToolManifest): TaskTool {
  return {
    name: tool.name,
    file: tool.file,
    once: tool.side_effects === 'once',
    timeout_ms: tool.timeout_ms,
    result_char_limit: tool.result_char_limit,
  };
}
