import { ERROR_CHARS_MAX, type ToolCallStatus, type ToolManifest } from './contract.ts';
import type { HostSettings, OutcomeFrame } from './protocol.ts';
import { cutText } from './text.ts';
import type { FromThread } from './thread-messages.ts';
import type { ThreadPool } from './threads.ts';
import {
  describeCrash,
  describeEnd,
  explain,
  judge,
  outOfMemory,
  withoutWords,
  type ThreadEnd,
} from './verdict.ts';

/**
 * Milliseconds in which a thread must end a call that is over its deadline. With the interval of looks a quarter of a second:
 * less would end threads that a busy machine delays.
 */
const DEADLINE_SLACK_MS = 225;
/** Grace for cancelled calls to end by themselves. Unit: milliseconds. */
const CANCEL_GRACE_MS = 500;
/** Timeout for a thread to begin its session. Unit: milliseconds. */
const START_TIMEOUT_MS = 15_000;
/** Milliseconds after which a thread with waiting calls and none running counts as blocked by code of an ended call. */
const STUCK_AFTER_MS = 5_000;
/** Interval of memory checks: a tool that allocates a gigabyte per second gets 50 MB further. Unit: milliseconds. */
const MEMORY_EVERY_MS = 50;
/** Share of the timeout above which the thread's work may have made a call late. */
const BUSY_PART_MAX = 0.25;

/** A call without an outcome. */
export interface QueuedCall {
  readonly id: number;
  readonly toolName: string;
  /** 0: the tool's timeout. */
  readonly timeoutMs: number;
  /** The call frame, which the host does not read. */
  readonly json: string;
  /** It was interrupted after its entry, or may have been, and runs again alone. */
  repeated: boolean;
  /** Ends of its thread under it without a known cause. */
  interruptions: number;
  cancelled: boolean;
}

/** The calls of one tool on one thread. */
export interface Session {
  /** Calls that occupy the thread. */
  readonly size: number;
  /** Whether it takes no more calls: it ends when its calls have ended. */
  draining: boolean;
  /** When it was asked to end; undefined: not yet. */
  readonly endingMs: number | undefined;
  /** Hands calls to the thread. */
  post(calls: readonly QueuedCall[]): void;
  /** Tells the thread that the call is cancelled, if it has it. */
  cancel(id: number): void;
  /** Stops calls, or the thread, if a time is up. */
  look(nowMs: number): void;
  /** Ends the session of an unoccupied thread, which then is free for another. */
  end(): void;
}

/** The effects of a session. */
export interface SessionParts {
  readonly tool: ToolManifest;
  readonly pool: ThreadPool;
  readonly settings: HostSettings;
  /** Announces calls about to start; resolves once the announcement survives this process. */
  readonly announce: (ids: readonly number[]) => Promise<void>;
  readonly onOutcome: (call: QueuedCall, outcomeJson: string) => void;
  /** A call has ended, so there may be room for others. */
  readonly onRoom: () => void;
  /** The thread ended under this `once` call. */
  readonly onLost: () => void;
  /** Undefined: the module was imported. Else the thread could not import it, or ended while it did. */
  readonly onImport: (failure: string | undefined) => void;
  /** Called once, last, with the calls to run again. */
  readonly onEnd: (again: readonly QueuedCall[]) => void;
  readonly log: (line: string) => void;
}

interface PostedCall {
  readonly call: QueuedCall;
  enteredMs: number | undefined;
  /** Busy time of its thread at the first look. */
  busyMs: number | undefined;
  /** Its deadline has passed, and its thread is told so. */
  isOverdue: boolean;
  /** Its neighbours may have used its time. */
  isCrowded: boolean;
  /** It was stopped because it was crowded, and runs again alone when its neighbours have ended. */
  isGivenBack: boolean;
}

/** Starts a session and follows it until each of its calls has an outcome or is to run again. */
export function startSession(parts: SessionParts): Session {
  const { tool, settings, pool } = parts;
  const posted = new Map<number, PostedCall>();
  const stopSignal = new AbortController();
  const link = pool.connect(tool, onMessage, stopSignal.signal);
  const once = tool.side_effects === 'once';
  let phase: 'waiting' | 'importing' | 'running' = 'waiting';
  let heardMs = performance.now();
  let threadId = 0;
  /** The call that was entered and has not yielded; 0: none. */
  let running = 0;
  /** The call that ends the thread; 0: code of an ended call does. */
  let blamed: number | undefined;
  let givenBack = 0;
  let postedEver = 0;
  let notImported: string | undefined;
  let stopping: { readonly end: ThreadEnd; readonly detail: string } | undefined;
  let endingMs: number | undefined;
  let cancelledMs: number | undefined;
  let memoryAskedMs = -Infinity;

  function timeoutOf(call: QueuedCall): number {
    return call.timeoutMs || tool.timeout_ms;
  }

  function stop(end: ThreadEnd, detail = describeEnd(end, settings)): void {
    if (stopping !== undefined) return;
    stopping = { end, detail };
    session.draining = true;
    stopSignal.abort();
  }

  function onMessage(message: FromThread): void {
    heardMs = performance.now();
    switch (message.kind) {
      case 'began':
        phase = 'importing';
        threadId = message.threadId;
        return;
      case 'step':
        onStep(message.running, message.ended, message.outcome);
        return;
      case 'blame':
        blamed ??= message.call;
        return;
      case 'not_imported':
        notImported = message.reason;
        stop('crash', message.reason);
        return;
      case 'occupied':
        stop('deadline');
        return;
    }
  }

  function onStep(entered: number, ended: number, outcome: string): void {
    // Without an outcome, the call was stopped, maybe during the import.
    if (phase !== 'running' && (ended === 0 || outcome !== '')) {
      phase = 'running';
      parts.onImport(undefined);
    }
    running = entered;
    const next = posted.get(entered);
    if (next !== undefined) next.enteredMs = heardMs;
    const done = posted.get(ended);
    if (done === undefined) return;
    if (outcome === '' && !done.call.cancelled && done.isCrowded) {
      done.isGivenBack = true;
      givenBack += 1;
    } else {
      posted.delete(ended);
      parts.onOutcome(done.call, outcome === '' ? stoppedOutcome(done) : outcome);
    }
    parts.onRoom();
  }

  /** Returns the outcome of a call that its thread has stopped. */
  function stoppedOutcome({ call, enteredMs }: PostedCall): string {
    if (call.cancelled) return givenUpOutcome(call, enteredMs !== undefined);
    const runMs = heardMs - (enteredMs ?? heardMs);
    return outcomeJson('timed_out', true, `TimeoutError: ${lateReason(call)}`, runMs);
  }

  function lateReason(call: QueuedCall): string {
    return `${tool.name} ran longer than ${timeoutOf(call)} ms`;
  }

  async function post(calls: readonly QueuedCall[]): Promise<void> {
    if (posted.size === 0) heardMs = performance.now();
    postedEver += calls.length;
    for (const call of calls)
      posted.set(call.id, {
        call,
        enteredMs: undefined,
        busyMs: undefined,
        isOverdue: false,
        isCrowded: false,
        isGivenBack: false,
      });
    const announced = parts.announce(calls.map(({ id }) => id));
    // Only `once` calls must wait until the announcement has left this process.
    if (once) await announced;
    const wanted = calls.filter(({ cancelled }) => !cancelled);
    const frames = wanted.map(({ id, json }) => `{"id":${id},${json.slice(1)}`);
    if (frames.length > 0) link.post({ kind: 'calls', json: `[${frames.join(',')}]` });
    for (const call of calls) if (call.cancelled) onStep(running, call.id, '');
  }

  /** Decides about each unfinished call of a session that has ended. */
  function settle(end: ThreadEnd, detail: string): void {
    const isAlone = postedEver === 1 && blamed !== 0;
    const isCulprit = (id: number): boolean => (blamed === undefined ? running === id : blamed === id);
    // Calls that end here, or run again alone, explain the end: they will not be there next time.
    const isExplained =
      end === 'deadline' || end === 'cancelled' || (end === 'crash' && [...posted.keys()].some(isCulprit));
    const again: QueuedCall[] = [];
    for (const { call, enteredMs, isOverdue } of posted.values()) {
      const entered = enteredMs !== undefined;
      const verdict = judge(end, {
        entered,
        once,
        overdue: isOverdue,
        cancelled: call.cancelled,
        culprit: isCulprit(call.id) || isAlone,
        leftover: blamed === 0,
        repeated: call.repeated,
        interruptions: call.interruptions,
      });
      if (verdict === 'again' || verdict === 'alone') {
        if (!isExplained && notImported === undefined) call.interruptions += 1;
        call.repeated ||= verdict === 'alone';
        again.push(call);
        continue;
      }
      // The message is shown only to the call that threw it: for others it is foreign data.
      const told = verdict === 'culprit' && isCulprit(call.id) ? detail : withoutWords(detail);
      const status = verdict === 'deadline' ? 'timed_out' : 'crashed';
      const error = explain(verdict, tool, timeoutOf(call), told);
      const runMs = entered ? performance.now() - enteredMs : 0;
      parts.onOutcome(call, outcomeJson(status, entered || call.repeated, error, runMs));
      if (entered && once && end !== 'cancelled') parts.onLost();
    }
    posted.clear();
    parts.onEnd(again);
  }

  async function follow(): Promise<void> {
    const { crash } = await link.ended;
    // Without a crash, only calls that were given back are left.
    stopping ??=
      crash === undefined
        ? { end: 'deadline', detail: describeEnd('deadline', settings) }
        : { end: 'crash', detail: describeCrash(crash.error, settings) };
    const { end, detail } = stopping;
    if (phase === 'importing' && blamed !== 0 && (end === 'load_timeout' || end === 'crash'))
      notImported ??= withoutWords(detail);
    const cause = blamed === 0 ? 'code left running by an ended call' : tool.name;
    if (notImported !== undefined) parts.onImport(notImported);
    else if (end === 'crash' || end === 'stuck')
      parts.log(`a thread ended: ${withoutWords(detail)} (${cause})`);
    settle(end, detail);
  }

  /** Tells the thread about late calls; ends it if a late call runs without yielding, or if the thread does not stop it. */
  function lookAtCalls(nowMs: number): void {
    let isUnderWay = false;
    for (const entry of posted.values()) {
      const { call, enteredMs } = entry;
      if (enteredMs === undefined || entry.isGivenBack) continue;
      isUnderWay = true;
      entry.busyMs ??= pool.busyMs(threadId);
      const timeoutMs = timeoutOf(call);
      const lateMs = nowMs - enteredMs - timeoutMs;
      if (lateMs > DEADLINE_SLACK_MS || (lateMs > 0 && call.id === running)) stop('deadline');
      if (lateMs <= 0 || entry.isOverdue) continue;
      entry.isOverdue = true;
      session.draining = true;
      const busyMs = pool.busyMs(threadId) - entry.busyMs;
      entry.isCrowded = busyMs > timeoutMs * BUSY_PART_MAX && !call.repeated && !once;
      link.post({ kind: 'stop', id: call.id, name: 'TimeoutError', reason: lateReason(call) });
    }
    if (!isUnderWay && (session.size > 0 || endingMs !== undefined) && nowMs - heardMs > STUCK_AFTER_MS)
      stop('stuck');
  }

  function lookAtMemory(nowMs: number): void {
    if (nowMs - memoryAskedMs < MEMORY_EVERY_MS) return;
    // Until the answer comes, no other question is asked.
    memoryAskedMs = Infinity;
    void pool.memoryBytes(threadId).then((bytes = 0) => {
      memoryAskedMs = nowMs;
      if (bytes > settings.thread_memory_mb * 1024 * 1024) stop('crash', outOfMemory(settings));
    });
  }

  const session: Session = {
    get size() {
      return posted.size - givenBack;
    },
    get endingMs() {
      return endingMs;
    },
    draining: false,
    post: (calls) => void post(calls),
    cancel(id) {
      if (!posted.has(id)) return;
      session.draining = true;
      link.post({ kind: 'stop', id, name: 'AbortError', reason: 'the caller gave up' });
      if ([...posted.values()].every(({ call }) => call.cancelled)) cancelledMs ??= performance.now();
    },
    look(nowMs) {
      if (stopping !== undefined) return;
      if (phase === 'waiting' && nowMs - heardMs > START_TIMEOUT_MS) stop('no_start');
      if (phase === 'importing' && nowMs - heardMs > settings.load_timeout_ms) stop('load_timeout');
      if (cancelledMs !== undefined && posted.size > 0 && nowMs - cancelledMs > CANCEL_GRACE_MS)
        stop('cancelled');
      if (phase === 'running') lookAtCalls(nowMs);
      if (phase !== 'waiting') lookAtMemory(nowMs);
    },
    end() {
      endingMs = performance.now();
      session.draining = true;
      link.post({ kind: 'end' });
    },
  };
  void follow();
  return session;
}

/** Returns the outcome frame of a call that has none of its own, as JSON. */
export function outcomeJson(status: ToolCallStatus, started: boolean, reason: string, runMs = 0): string {
  const error = cutText(reason, ERROR_CHARS_MAX);
  const duration_ms = Math.round(runMs);
  return JSON.stringify({
    status,
    result: error,
    truncated: false,
    duration_ms,
    started,
    error,
  } satisfies OutcomeFrame);
}

/** Returns the outcome frame of a call that was cancelled, as JSON. */
export function givenUpOutcome({ repeated }: QueuedCall, entered: boolean): string {
  const started = entered || repeated;
  return outcomeJson(
    'crashed',
    started,
    `AbortError: the caller gave up${started ? '' : ' before the call started'}`,
  );
}
