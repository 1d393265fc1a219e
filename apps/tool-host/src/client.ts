import { startChild, type Child } from './child.ts';
import { encodeCall } from './call-request.ts';
import type { ToolCallOutcome, ToolCallRequest, ToolCatalog } from './contract.ts';
import { explainGivenUp } from './explain.ts';
import { ToolHostClosedError, ToolHostUnavailableError, type ToolHost } from './tool-host.ts';
import { hostSettings, type ToolHostOptions } from './options.ts';
import { crash, endedOutcome, outcomeOf, type PendingCall } from './pending-call.ts';
import type { FromHost } from './protocol.ts';

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
  const waiting = new Set<PendingCall>();
  /** Calls sent to the host. */
  const sent = new Map<number, PendingCall>();
  const callsOfSignal = new WeakMap<AbortSignal, Set<PendingCall>>();
  let sentBytes = 0;
  let catalog: ToolCatalog = { tools: [], problems: [] };
  /** Tools whose calls may be repeated. */
  let repeatable: ReadonlySet<string> = new Set();
  let child: Child | undefined;
  let state: 'first start' | 'starting' | 'ready' | 'closed' = 'first start';
  let sending = false;
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
        onReady(frame.catalog);
        return;
      case 'starting':
        for (const id of frame.ids) {
          const call = sent.get(id);
          if (call !== undefined) call.starting = true;
        }
        return;
      case 'outcomes':
        for (const outcome of frame.outcomes) {
          const call = takeSent(outcome.id);
          call?.resolve(outcomeOf(call, outcome));
        }
        planSend();
        return;
      case 'pong':
        return;
    }
  }

  function onReady(found: ToolCatalog): void {
    catalog = found;
    const harmless = catalog.tools.filter(({ side_effects }) => side_effects !== 'once');
    repeatable = new Set(harmless.map(({ name }) => name));
    // The caller of the first start reads the problems itself; of restarts they are only logged.
    if (state === 'starting') {
      for (const { file, reason } of catalog.problems)
        onLog(`[tool-host] tool module left out: ${file}: ${reason}`, 'host');
    }
    if (state !== 'closed') state = 'ready';
    failedStarts = 0;
    firstReady.resolve();
    send();
  }

  function takeSent(id: number): PendingCall | undefined {
    const call = sent.get(id);
    if (call !== undefined && sent.delete(id)) sentBytes -= call.bytes;
    return call;
  }

  /** Plans to send the calls of this turn together. */
  function planSend(): void {
    if (sending) return;
    sending = true;
    queueMicrotask(send);
  }

  function send(): void {
    sending = false;
    if (state !== 'ready') return;
    let entries: string[] = [];
    let interrupted: number[] = [];
    let bytes = 0;
    const flush = (): void => {
      if (entries.length === 0) return;
      const calls = entries.join(',');
      child?.sendJson(`{"kind":"calls","interrupted":${JSON.stringify(interrupted)},"calls":[${calls}]}`);
      entries = [];
      interrupted = [];
      bytes = 0;
    };
    for (const call of waiting) {
      if (sent.size >= WINDOW_CALLS_MAX || sentBytes >= WINDOW_BYTES_MAX) break;
      waiting.delete(call);
      // The module has changed meanwhile.
      if (call.interrupted && !repeatable.has(call.request.tool_name)) {
        crash(call, true, 'the tool host ended while the call was under way');
        continue;
      }
      if (bytes > 0 && bytes + call.bytes > FRAME_BYTES_WANTED) flush();
      sent.set(call.id, call);
      sentBytes += call.bytes;
      if (call.interrupted) interrupted.push(call.id);
      entries.push(call.entry);
      bytes += call.bytes;
    }
    flush();
  }

  function onGone(reason: string, said: string): void {
    child = undefined;
    if (state === 'closed') {
      gone.resolve();
      return;
    }
    onLog(`[tool-host] process gone: ${reason}${said}`, 'host');
    takeBack(reason);
    if (performance.now() - startedMs > STABLE_AFTER_MS) deathsInARow = 0;
    deathsInARow += 1;
    if (state !== 'ready') failedStarts += 1;
    if (failedStarts >= FAILED_STARTS_MAX || state === 'first start') {
      const problem = `the tool host does not come up: ${reason}`;
      firstReady.reject(new ToolHostUnavailableError(`${problem}${said}`));
      for (const call of waiting) crash(call, call.interrupted, problem, true);
      waiting.clear();
      return;
    }
    state = 'starting';
    const delayMs = deathsInARow === 1 ? 0 : RESTART_DELAY_MS_MIN * 2 ** (deathsInARow - 2);
    restartTimer = setTimeout(start, Math.min(RESTART_DELAY_MS_MAX, delayMs));
  }

  /** Ends the calls of a host that has died, or queues them for the next. */
  function takeBack(reason: string): void {
    const lost = [...sent.values()];
    sent.clear();
    sentBytes = 0;
    // Calls that end here, or are resent alone, explain the crash: calls that had not started did not cause it.
    const isExplained = lost.some(({ starting }) => starting);
    for (const call of lost) {
      if (!mayBeSent(call)) {
        const error = `the tool host ended while the call was under way: ${reason}`;
        crash(call, call.starting || call.interrupted, error);
        continue;
      }
      if (!isExplained) call.resends += 1;
      call.interrupted ||= call.starting;
      call.starting = false;
      waiting.add(call);
    }
  }

  /** Whether the call may be resent: once if it may have run, because it may be the cause of the crash. */
  function mayBeSent(call: PendingCall): boolean {
    if (call.cancelled || call.resends >= RESENDS_MAX) return false;
    return !call.starting || (!call.interrupted && repeatable.has(call.request.tool_name));
  }

  function cancel(call: PendingCall): void {
    call.cancelled = true;
    if (waiting.delete(call)) {
      crash(call, call.interrupted, explainGivenUp(call.interrupted));
      return;
    }
    child?.send({ kind: 'cancel', id: call.id });
    setTimeout(() => {
      if (takeSent(call.id) !== undefined) crash(call, true, 'AbortError: the caller gave up');
      planSend();
    }, CANCEL_TIMEOUT_MS).unref();
  }

  /** Returns the calls to cancel with the signal. One listener for all: a signal searches its listeners one by one. */
  function callsOf(signal: AbortSignal): Set<PendingCall> {
    let calls = callsOfSignal.get(signal);
    if (calls === undefined) {
      const watched = new Set<PendingCall>();
      signal.addEventListener('abort', () => watched.forEach(cancel), { once: true });
      callsOfSignal.set(signal, watched);
      calls = watched;
    }
    return calls;
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
    child.send({ kind: 'ping' });
  }, PING_EVERY_MS);
  pinger.unref();

  start();
  await firstReady.promise.catch((error: unknown) => {
    clearInterval(pinger);
    throw error;
  });

  async function runCall(
    request: ToolCallRequest,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<ToolCallOutcome> {
    const encoded = encodeCall(nextId, request);
    if ('error' in encoded) return endedOutcome(request, 'failed', false, encoded.error);
    if (signal?.aborted === true) return endedOutcome(request, 'crashed', false, explainGivenUp(false));
    const { promise, resolve } = Promise.withResolvers<ToolCallOutcome>();
    const call: PendingCall = {
      id: nextId,
      request,
      entry: encoded.entry,
      bytes: encoded.bytes,
      resolve,
      starting: false,
      resends: 0,
      interrupted: false,
      cancelled: false,
    };
    nextId += 1;
    if (state === 'closed') {
      crash(call, false, new ToolHostClosedError().message, true);
      return promise;
    }
    waiting.add(call);
    // A host that was given up is tried again.
    if (child === undefined && restartTimer === undefined) start();
    planSend();
    if (signal === undefined) return promise;
    const calls = callsOf(signal);
    calls.add(call);
    const outcome = await promise;
    calls.delete(call);
    return outcome;
  }

  const isClosed = (): boolean => state === 'closed';

  return {
    listTools: () => catalog.tools,
    listProblems: () => catalog.problems,
    pid: () => child?.pid,
    runCall,
    async runCalls(requests, runOptions) {
      if (isClosed()) throw new ToolHostClosedError();
      const outcomes = await Promise.all(requests.map((request) => runCall(request, runOptions)));
      const away = outcomes.find(({ unavailable }) => unavailable === true);
      if (away === undefined) return outcomes;
      if (isClosed()) throw new ToolHostClosedError();
      throw new ToolHostUnavailableError(away.result, outcomes);
    },
    async close() {
      if (state !== 'closed') {
        state = 'closed';
        clearInterval(pinger);
        clearTimeout(restartTimer);
        const { message } = new ToolHostClosedError();
        for (const call of waiting) crash(call, call.interrupted, message, true);
        for (const call of sent.values()) crash(call, call.starting || call.interrupted, message, true);
        waiting.clear();
        sent.clear();
        if (child === undefined) gone.resolve();
        child?.release();
      }
      const patience = setTimeout(() => child?.kill(), CANCEL_TIMEOUT_MS);
      await gone.promise;
      clearTimeout(patience);
    },
  };
}
