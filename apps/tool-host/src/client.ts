import { startChild, type Child } from './child.ts';
import { encodeCall } from './call-request.ts';
import { ERROR_CHARS_MAX, type ToolCallOutcome, type ToolCallStatus, type ToolCatalog } from './contract.ts';
import { explainGivenUp } from './explain.ts';
import { createFifo } from './fifo.ts';
import { ToolHostClosedError, ToolHostUnavailableError, type ToolHost } from './tool-host.ts';
import { hostSettings, type ToolHostOptions } from './options.ts';
import type { FromHost, OutcomeFrame } from './protocol.ts';
import { cutText } from './text.ts';

/** Calls the host may hold at a time; others wait here, where a crash of the host does not affect them. */
const WINDOW_CALLS_MAX = 4_096;
/** The same limit in bytes. A single larger call goes alone. */
const WINDOW_BYTES_MAX = 64 * 1024 * 1024;
/** Calls are packed into frames of about this size, so that the host starts early. */
const FRAME_BYTES_WANTED = 512 * 1024;
const PING_EVERY_MS = 5_000;
/** Consecutive unanswered pings after which the host is killed and restarted. */
const PINGS_UNANSWERED_MAX = 6;
const RESTART_DELAY_MS_MIN = 100;
const RESTART_DELAY_MS_MAX = 5_000;
/** Lifetime after which the end of a host does not count as a failed start. Unit: milliseconds. */
const STABLE_AFTER_MS = 30_000;
/** Consecutive failed starts after which waiting calls fail. The next call tries again. */
const FAILED_STARTS_MAX = 5;
/** Milliseconds until a cancelled call ends even without an answer of the host. */
const CANCEL_TIMEOUT_MS = 2_000;
/** Resends of a call whose host died before any call may have run. A call that may have run is resent once. */
const RESENDS_MAX = 3;

interface Dispatch {
  readonly outcomes: ToolCallOutcome[];
  missing: number;
  readonly resolve: (outcomes: ToolCallOutcome[]) => void;
  readonly reject: (error: Error) => void;
  cancelled: boolean;
  settled: boolean;
}

interface PendingCall {
  readonly id: number;
  readonly callId: string;
  readonly toolName: string;
  readonly envelope: string;
  readonly json: string;
  readonly bytes: number;
  readonly dispatch: Dispatch;
  readonly position: number;
  starting: boolean;
  resends: number;
  /** A host ended while the call may have been running. */
  interrupted: boolean;
}

/** Threads drop their input once it is answered, so a small heap saves memory. */
const HEAP_ARGUMENTS = ['--max-semi-space-size=4', '--heap-growing-percent=50'];

/** Silences the warning of the type stripper, which has no other switch. */
const QUIET_ARGUMENTS = ['--disable-warning=ExperimentalWarning'];

/**
 * Starts the tool host as a child process; resolves once its tools are loaded.
 * The child sees only PATH, TZ and LANG of this environment and none of its descriptors. It ends with this process, and is
 * restarted whenever it dies.
 * Throws: TypeError for a wrong option, by name; {@link ToolHostUnavailableError} if the process does not start.
 */
export async function startToolHost(options: ToolHostOptions): Promise<ToolHost> {
  const settings = hostSettings(options);
  const onLog = options.onLog ?? (() => {});
  /** Calls that wait for the window or for a host. */
  const queue = createFifo<PendingCall>();
  /** Calls sent to the host. */
  const sent = new Map<number, PendingCall>();
  const dispatches = new Set<Dispatch>();
  let sentBytes = 0;
  let catalog: ToolCatalog = { tools: [], problems: [] };
  /** Tools whose calls may be repeated. */
  let repeatable: ReadonlySet<string> = new Set();
  let child: Child | undefined;
  let ready = false;
  let closed = false;
  let nextId = 1;
  let startedMs = 0;
  let deathsInARow = 0;
  let failedStarts = 0;
  let restartTimer: NodeJS.Timeout | undefined;
  let unanswered = 0;
  const gone = Promise.withResolvers<void>();
  const firstReady = Promise.withResolvers<void>();

  function start(): void {
    restartTimer = undefined;
    startedMs = performance.now();
    unanswered = 0;
    child = startChild({
      nodePath: options.nodePath ?? process.execPath,
      nodeArguments: [...HEAP_ARGUMENTS, ...QUIET_ARGUMENTS, ...(options.nodeArguments ?? [])],
      onLog,
      onFrame,
      onGone,
    });
    child.send({ kind: 'configure', settings });
  }

  function onFrame(frame: FromHost): void {
    unanswered = 0;
    switch (frame.kind) {
      case 'ready':
        catalog = frame.catalog;
        repeatable = new Set(
          catalog.tools.filter(({ side_effects }) => side_effects !== 'once').map(({ name }) => name),
        );
        // The caller of the first start reads the problems itself; of restarts they are only logged.
        if (!catalogUnknown) {
          for (const { file, reason } of catalog.problems)
            onLog(`[tool-host] tool module left out: ${file}: ${reason}`, 'host');
        }
        ready = true;
        failedStarts = 0;
        firstReady.resolve();
        sendCalls();
        return;
      case 'starting':
        for (const id of frame.ids) {
          const call = sent.get(id);
          if (call !== undefined) call.starting = true;
        }
        return;
      case 'outcomes':
        for (const outcome of frame.outcomes) onOutcome(outcome);
        sendCalls();
        return;
      case 'pong':
        return;
    }
  }

  function onOutcome(frame: OutcomeFrame): void {
    const call = sent.get(frame.id);
    if (call === undefined) return;
    sent.delete(frame.id);
    sentBytes -= call.bytes;
    deliver(call, outcomeOf(call, frame));
  }

  function deliver(call: PendingCall, outcome: ToolCallOutcome): void {
    const { dispatch } = call;
    dispatch.outcomes[call.position] = outcome;
    dispatch.missing -= 1;
    if (dispatch.missing === 0) settle(dispatch, undefined);
  }

  function settle(dispatch: Dispatch, error: Error | undefined): void {
    if (dispatch.settled) return;
    dispatch.settled = true;
    dispatches.delete(dispatch);
    if (error === undefined) dispatch.resolve(dispatch.outcomes);
    else dispatch.reject(error);
  }

  function sendCalls(): void {
    if (!ready || child === undefined) return;
    let envelopes: string[] = [];
    let calls: string[] = [];
    let chars = 0;
    const flush = (): void => {
      if (calls.length > 0)
        child?.sendText([`{"kind":"calls","calls":[${envelopes.join(',')}]}\n`, ...calls]);
      envelopes = [];
      calls = [];
      chars = 0;
    };
    while (sent.size < WINDOW_CALLS_MAX && sentBytes < WINDOW_BYTES_MAX) {
      const call = queue.shift();
      if (call === undefined) break;
      if (call.dispatch.settled) continue;
      // The module has changed meanwhile.
      if (call.interrupted && !repeatable.has(call.toolName)) {
        deliver(call, interruptedOutcome(call, true, 'the tool host ended while the call was under way'));
        continue;
      }
      if (chars > 0 && chars + call.bytes > FRAME_BYTES_WANTED) flush();
      sent.set(call.id, call);
      sentBytes += call.bytes;
      envelopes.push(call.interrupted ? `${call.envelope.slice(0, -1)},1]` : call.envelope);
      calls.push(call.json);
      chars += call.json.length;
    }
    flush();
  }

  function onGone(reason: string, said: string): void {
    const wasReady = ready;
    child = undefined;
    ready = false;
    if (closed) {
      gone.resolve();
      return;
    }
    onLog(`[tool-host] process gone: ${reason}${said}`, 'host');
    const interrupted = [...sent.values()];
    sent.clear();
    sentBytes = 0;
    // Calls that end here, or are resent alone, explain the crash: calls that had not started did not cause it.
    const isExplained = interrupted.some(({ starting }) => starting);
    for (const call of interrupted) {
      if (mayBeSent(call)) {
        if (!isExplained) call.resends += 1;
        call.interrupted ||= call.starting;
        call.starting = false;
        queue.push(call);
      } else {
        deliver(
          call,
          interruptedOutcome(
            call,
            call.starting || call.interrupted,
            `the tool host ended while the call was under way: ${reason}`,
          ),
        );
      }
    }

    if (performance.now() - startedMs > STABLE_AFTER_MS) deathsInARow = 0;
    deathsInARow += 1;
    if (!wasReady) failedStarts += 1;
    if (failedStarts >= FAILED_STARTS_MAX || (!wasReady && catalogUnknown)) {
      const problem = `the tool host does not come up: ${reason}`;
      for (const call of queue.takeWhere(() => true))
        call.dispatch.outcomes[call.position] = interruptedOutcome(call, call.interrupted, problem);
      rejectWaiting((outcomes) => new ToolHostUnavailableError(`${problem}${said}`, outcomes));
      return;
    }
    const delayMs = deathsInARow === 1 ? 0 : RESTART_DELAY_MS_MIN * 2 ** (deathsInARow - 2);
    restartTimer = setTimeout(start, Math.min(RESTART_DELAY_MS_MAX, delayMs));
  }

  /**
   * Whether the call may be sent. A call that may have run is resent only once, because it may be the cause of the crash.
   */
  function mayBeSent(call: PendingCall): boolean {
    if (call.dispatch.cancelled || call.resends >= RESENDS_MAX) return false;
    return !call.starting || (!call.interrupted && repeatable.has(call.toolName));
  }

  function rejectWaiting(errorWith: (outcomes?: readonly ToolCallOutcome[]) => Error): void {
    firstReady.reject(errorWith());
    for (const dispatch of dispatches) settle(dispatch, errorWith(dispatch.outcomes));
    queue.takeWhere(() => true);
  }

  /** Starts the host again on the next call after it was given up. */
  function ensureStarting(): void {
    if (child === undefined && restartTimer === undefined) start();
  }

  function cancel(dispatch: Dispatch): void {
    dispatch.cancelled = true;
    for (const call of queue.takeWhere((waiting) => waiting.dispatch === dispatch)) {
      deliver(call, interruptedOutcome(call, call.interrupted, explainGivenUp(call.interrupted)));
    }
    const ids = [...sent.values()].filter((call) => call.dispatch === dispatch).map((call) => call.id);
    if (ids.length === 0) return;
    child?.send({ kind: 'cancel', ids });
    setTimeout(() => {
      for (const id of ids) {
        const call = sent.get(id);
        if (call === undefined) continue;
        sent.delete(id);
        sentBytes -= call.bytes;
        deliver(call, interruptedOutcome(call, true, 'AbortError: the caller gave up'));
      }
      sendCalls();
    }, CANCEL_TIMEOUT_MS).unref();
  }

  const pinger = setInterval(() => {
    if (child === undefined) return;
    // Counted in ticks, not in time: a suspended worker must not blame the host for the silence.
    if (unanswered >= PINGS_UNANSWERED_MAX) {
      onLog('[tool-host] no sign of life; ending the process', 'host');
      child.kill();
      return;
    }
    unanswered += 1;
    child.send({ kind: 'ping', request: unanswered });
  }, PING_EVERY_MS);
  pinger.unref();

  let catalogUnknown = true;
  start();
  await firstReady.promise.catch((error: unknown) => {
    clearInterval(pinger);
    closed = true;
    throw error;
  });
  catalogUnknown = false;

  return {
    listTools: () => catalog.tools,
    listProblems: () => catalog.problems,
    pid: () => child?.pid,
    runCalls(requests, runOptions) {
      if (closed) return Promise.reject(new ToolHostClosedError());
      const { promise, resolve, reject } = Promise.withResolvers<ToolCallOutcome[]>();
      const dispatch: Dispatch = {
        outcomes: new Array<ToolCallOutcome>(requests.length),
        missing: requests.length,
        resolve,
        reject,
        cancelled: false,
        settled: false,
      };
      dispatches.add(dispatch);
      const signal = runOptions?.signal;
      for (const [position, request] of requests.entries()) {
        const id = nextId;
        nextId += 1;
        const encoded = encodeCall(id, request);
        const call: PendingCall = {
          id,
          callId: request.call_id,
          toolName: request.tool_name,
          envelope: 'json' in encoded ? encoded.envelope : '',
          json: 'json' in encoded ? encoded.json : '',
          bytes: 'json' in encoded ? encoded.bytes : 0,
          dispatch,
          position,
          starting: false,
          resends: 0,
          interrupted: false,
        };
        if ('error' in encoded) deliver(call, endedOutcome(call, 'failed', false, encoded.error));
        else queue.push(call);
      }
      if (requests.length === 0) settle(dispatch, undefined);
      else if (signal?.aborted === true) cancel(dispatch);
      else if (signal !== undefined) {
        const onAbort = (): void => cancel(dispatch);
        signal.addEventListener('abort', onAbort, { once: true });
        const stopListening = (): void => signal.removeEventListener('abort', onAbort);
        promise.then(stopListening, stopListening);
      }
      if (queue.size > 0) ensureStarting();
      sendCalls();
      return promise;
    },
    async close() {
      if (!closed) {
        closed = true;
        clearInterval(pinger);
        clearTimeout(restartTimer);
        rejectWaiting(() => new ToolHostClosedError());
        if (child === undefined) gone.resolve();
        child?.release();
      }
      const patience = setTimeout(() => child?.kill(), CANCEL_TIMEOUT_MS);
      await gone.promise;
      clearTimeout(patience);
    },
  };
}

/** Field by field: this runs for every call, and a spread costs ten times as much. */
function outcomeOf(call: PendingCall, frame: OutcomeFrame): ToolCallOutcome {
  const { status, result, truncated, duration_ms, started, error } = frame;
  const outcome = { call_id: call.callId, status, result, truncated, duration_ms, started };
  return error === undefined ? outcome : { ...outcome, error };
}

function endedOutcome(
  call: PendingCall,
  status: ToolCallStatus,
  started: boolean,
  error: string,
): ToolCallOutcome {
  return { call_id: call.callId, status, result: error, truncated: false, duration_ms: 0, started, error };
}

function interruptedOutcome(call: PendingCall, started: boolean, error: string): ToolCallOutcome {
  return endedOutcome(call, 'crashed', started, cutText(error, ERROR_CHARS_MAX));
}
