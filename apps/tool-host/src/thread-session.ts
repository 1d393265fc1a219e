import type { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import type { ToolCallStatus, ToolContext, ToolManifest, ToolModule } from './contract.ts';
import type { CallFrame, OutcomeFrame } from './protocol.ts';
import { describeError, resultText } from './text.ts';
import type { FromThread, ToThread } from './thread-messages.ts';
import type { OutputSource } from './thread-output.ts';

/** Milliseconds without a turn of the event loop after which timers and sockets of running calls get a turn. */
const TURN_EVERY_MS = 10;
/** Turns of the event loop in which an answer already received at the timeout may still reach its call. */
const TURNS_BEFORE_TIMEOUT = 2;
/** Share of busy time above which a call may have timed out because of its neighbours. */
const BUSY_PART_MAX = 0.25;
/** Time for a timed-out or cancelled function to react to its signal. Unit: milliseconds. */
const ABANDON_GRACE_MS = 100;

/** A call whose function was entered. */
export interface LiveCall extends OutputSource {
  readonly frame: CallFrame;
  readonly alone: boolean;
  readonly startedMs: number;
  /** Busy time of its thread when it yielded. */
  threadBusyMs: number;
  /** Created when the tool first reads its signal: most tools never do. */
  controller: AbortController | undefined;
  /** The reason of the signal, or of the signal to come once it is read. */
  abortReason: Error | undefined;
  /** It has its outcome, or was given back. */
  ended: boolean;
}

/** The calls of one tool in this thread. */
export interface ThreadSession {
  receive(message: ToThread): void;
  /** Enters calls from now on: the module is imported. */
  open(run: ToolModule['run']): void;
  /** Reports the call that ends the thread: it exits, or threw outside its promise. */
  blame(call: LiveCall): void;
  /** Resolves when the host has ended the session. Never resolves if functions of ended calls are still running. */
  readonly ended: Promise<void>;
}

/** Starts a session. `post` sends a message to the host. */
export function startThreadSession(
  tool: ToolManifest,
  callInProgress: AsyncLocalStorage<LiveCall>,
  post: (message: FromThread) => void,
): ThreadSession {
  /** Calls to enter, in order. */
  const pending = new Map<number, { readonly frame: CallFrame; readonly alone: boolean }>();
  const live = new Map<number, LiveCall>();
  /** Functions that may still be running although their calls have ended. */
  const abandoned = new Set<LiveCall>();
  const end = Promise.withResolvers<void>();
  let run: ToolModule['run'] | undefined;
  let entering = false;
  /** An outcome to post with the next entry. */
  let outcome = { ended: 0, outcome: '' };

  function step(running: number): void {
    post({ kind: 'step', running, ...outcome });
    outcome = { ended: 0, outcome: '' };
  }

  function settle(call: LiveCall, status: ToolCallStatus, result: string, truncated: boolean): void {
    if (call.ended) return;
    call.ended = true;
    const { id } = call.frame;
    const duration_ms = Math.round((performance.now() - call.startedMs) * 1000) / 1000;
    const frame: OutcomeFrame = { id, status, result, truncated, duration_ms, started: true };
    outcome = {
      ended: id,
      outcome: JSON.stringify(status === 'succeeded' ? frame : { ...frame, error: result }),
    };
  }

  function succeed(call: LiveCall, value: unknown): void {
    try {
      const { text, truncated } = resultText(value, call.frame.result_char_limit ?? tool.result_char_limit);
      settle(call, 'succeeded', text, truncated);
    } catch (error) {
      fail(call, error);
    }
  }

  function fail(call: LiveCall, error: unknown): void {
    settle(call, 'failed', describeError(error), false);
  }

  function enter(frame: CallFrame, alone: boolean, run: ToolModule['run']): void {
    const call: LiveCall = {
      frame,
      alone,
      startedMs: performance.now(),
      label: `${tool.name} ${frame.tool_use_id}`,
      printedChars: 0,
      threadBusyMs: 0,
      controller: undefined,
      abortReason: undefined,
      ended: false,
    };
    step(frame.id);
    try {
      const value = callInProgress.run(call, run, frame.arguments, contextOf(call));
      if (isThenable(value)) void settleLater(call, Promise.resolve(value));
      else succeed(call, value);
    } catch (error) {
      fail(call, error);
    }
  }

  async function settleLater(call: LiveCall, pending: Promise<unknown>): Promise<void> {
    const timeoutMs = call.frame.timeout_ms ?? tool.timeout_ms;
    const leftMs = timeoutMs - (performance.now() - call.startedMs);
    const timer = setTimeout(() => void timeOut(call, timeoutMs), Math.max(1, leftMs));
    live.set(call.frame.id, call);
    call.threadBusyMs = busyMsOfThread();
    try {
      const value = await pending;
      if (!call.ended) succeed(call, value);
    } catch (error) {
      if (!call.ended) fail(call, error);
    }
    clearTimeout(timer);
    live.delete(call.frame.id);
    abandoned.delete(call);
    if (outcome.ended !== 0) step(0);
  }

  /** Times out a call. Timers run before I/O, so an answer received while a neighbour blocked the thread is taken first. */
  async function timeOut(call: LiveCall, timeoutMs: number): Promise<void> {
    for (let turn = 0; turn < TURNS_BEFORE_TIMEOUT; turn += 1) await nextTurn();
    if (call.ended) return;
    const reason = new DOMException(`${tool.name} ran longer than ${timeoutMs} ms`, 'TimeoutError');
    const isBusy = busyMsOfThread() - call.threadBusyMs > timeoutMs * BUSY_PART_MAX;
    if (isBusy && !call.alone && tool.side_effects !== 'once') {
      call.ended = true;
      post({ kind: 'given_back', call: call.frame.id });
      abandon(call, reason);
    } else {
      interrupt(call, 'timed_out', reason);
    }
  }

  function interrupt(call: LiveCall, status: ToolCallStatus, reason: Error): void {
    settle(call, status, describeError(reason), false);
    step(0);
    abandon(call, reason);
  }

  function abandon(call: LiveCall, reason: Error): void {
    live.delete(call.frame.id);
    abandoned.add(call);
    call.abortReason = reason;
    call.controller?.abort(reason);
    setTimeout(() => {
      if (abandoned.has(call)) post({ kind: 'abandoned' });
    }, ABANDON_GRACE_MS);
  }

  /** Enters the calls that are waiting. */
  function enterPending(): void {
    entering = false;
    if (run === undefined) return;
    const turnMs = performance.now();
    for (const [id, { frame, alone }] of pending) {
      if (performance.now() - turnMs > TURN_EVERY_MS) break;
      pending.delete(id);
      enter(frame, alone, run);
    }
    step(0);
    if (pending.size > 0) plan();
  }

  /** Plans to enter the calls in a later turn, so that a cancellation that has arrived is read first. */
  function plan(): void {
    if (entering) return;
    entering = true;
    setImmediate(enterPending);
  }

  function cancel(id: number): void {
    if (pending.delete(id)) post({ kind: 'step', running: 0, ended: id, outcome: '' });
    const call = live.get(id);
    if (call !== undefined) interrupt(call, 'crashed', new DOMException('the caller gave up', 'AbortError'));
  }

  async function finish(): Promise<void> {
    if (abandoned.size > 0) await wait(ABANDON_GRACE_MS);
    // Not resolved: the pool would give the thread to another tool before the host ends it.
    if (abandoned.size > 0) post({ kind: 'occupied' });
    else end.resolve();
  }

  return {
    ended: end.promise,
    receive(message) {
      if (message.kind === 'end') void finish();
      else if (message.kind === 'cancel') cancel(message.id);
      else {
        const { alone } = message;
        for (const frame of JSON.parse(message.json) as readonly CallFrame[])
          pending.set(frame.id, { frame, alone });
        plan();
      }
    },
    open(loaded) {
      run = loaded;
      plan();
    },
    blame(call) {
      post({ kind: 'blame', call: call.ended ? 0 : call.frame.id });
    },
  };
}

/** Creates the context of a call for its tool. */
function contextOf(call: LiveCall): ToolContext {
  return {
    get signal() {
      call.controller ??= new AbortController();
      if (call.abortReason !== undefined) call.controller.abort(call.abortReason);
      return call.controller.signal;
    },
    agentId: call.frame.agent_id,
    runId: call.frame.run_id,
    toolUseId: call.frame.tool_use_id,
    idempotencyKey: call.frame.idempotency_key,
  };
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
