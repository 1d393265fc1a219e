import type { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import type { ToolCallStatus, ToolContext, ToolManifest, ToolModule } from './contract.ts';
import type { CallFrame, OutcomeFrame } from './protocol.ts';
import { describeError, resultText } from './text.ts';
import type { FromThread, ToThread } from './thread-messages.ts';
import type { OutputSource } from './thread-output.ts';

/** Milliseconds without a turn of the event loop after which timers and sockets of running calls get a turn. */
const TURN_EVERY_MS = 10;
/** Turns of the event loop in which an answer that has been received may still reach a call that is stopped. */
const TURNS_BEFORE_STOP = 2;
/** Time for a stopped function to react to its signal. Unit: milliseconds. */
const ABANDON_GRACE_MS = 100;

/** A call whose function was entered. */
export interface LiveCall extends OutputSource {
  readonly frame: CallFrame;
  readonly startedMs: number;
  /** Created when the tool first reads its signal: most tools never do. */
  controller: AbortController | undefined;
  /** The reason of the signal, or of the signal to come once it is read. */
  stopReason: Error | undefined;
  ended: boolean;
}

/** The calls of one tool in this thread. */
export interface ThreadSession {
  receive(message: ToThread): void;
  /** Enters calls from now on: the module is imported. */
  open(run: ToolModule['run']): void;
  /** Reports the call that ends the thread: it exits, or threw outside its promise. */
  blame(call: LiveCall): void;
  /** Resolves when the host has ended the session. Never resolves if functions of stopped calls are still running. */
  readonly ended: Promise<void>;
}

/** Starts a session. `post` sends a message to the host. */
export function startThreadSession(
  tool: ToolManifest,
  callInProgress: AsyncLocalStorage<LiveCall>,
  post: (message: FromThread) => void,
): ThreadSession {
  /** Calls to enter, in order. */
  const pending = new Map<number, CallFrame>();
  /** Calls that have yielded. */
  const live = new Map<number, LiveCall>();
  /** Functions that may still be running although their calls were stopped. */
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
    const duration_ms = Math.round((performance.now() - call.startedMs) * 1000) / 1000;
    const frame: OutcomeFrame = { status, result, truncated, duration_ms, started: true };
    const json = JSON.stringify(status === 'succeeded' ? frame : { ...frame, error: result });
    outcome = { ended: call.frame.id, outcome: json };
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

  function enter(frame: CallFrame, run: ToolModule['run']): void {
    const call: LiveCall = {
      frame,
      startedMs: performance.now(),
      label: `${tool.name} ${frame.tool_use_id}`,
      printedChars: 0,
      controller: undefined,
      stopReason: undefined,
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
    live.set(call.frame.id, call);
    try {
      const value = await pending;
      if (!call.ended) succeed(call, value);
    } catch (error) {
      if (!call.ended) fail(call, error);
    }
    live.delete(call.frame.id);
    abandoned.delete(call);
    if (outcome.ended !== 0) step(0);
  }

  async function stop(id: number, reason: Error): Promise<void> {
    if (!pending.delete(id)) {
      for (let turn = 0; turn < TURNS_BEFORE_STOP; turn += 1) await nextTurn();
      const call = live.get(id);
      if (call === undefined) return;
      live.delete(id);
      abandoned.add(call);
      call.ended = true;
      call.stopReason = reason;
      call.controller?.abort(reason);
    }
    post({ kind: 'step', running: 0, ended: id, outcome: '' });
  }

  /** Enters the calls that are waiting. */
  function enterPending(): void {
    entering = false;
    if (run === undefined) return;
    const turnMs = performance.now();
    for (const [id, frame] of pending) {
      if (performance.now() - turnMs > TURN_EVERY_MS) break;
      pending.delete(id);
      enter(frame, run);
    }
    step(0);
    if (pending.size > 0) plan();
  }

  /** Plans to enter the calls in a later turn, so that a stop that has arrived is read first. */
  function plan(): void {
    if (entering) return;
    entering = true;
    setImmediate(enterPending);
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
      else if (message.kind === 'stop') void stop(message.id, new DOMException(message.reason, message.name));
      else {
        for (const frame of JSON.parse(message.json) as readonly CallFrame[]) pending.set(frame.id, frame);
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
      if (call.stopReason !== undefined) call.controller.abort(call.stopReason);
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
