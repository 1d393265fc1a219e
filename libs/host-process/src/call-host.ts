import type { FromHost } from './messages.ts';
import { superviseProcesses, type HostProcess, type ProcessesOptions } from './processes.ts';

/** Resends of a call whose process died before any call had started. */
const RESENDS_MAX = 3;

/** The end of a call that the worker's side decides. */
export interface CallEnd {
  /** `failed`: the call cannot be sent. `crashed`: its process ended, or the caller gave up. */
  readonly status: 'failed' | 'crashed';
  readonly reason: string;
  /** False only if the call was certainly not entered. */
  readonly started: boolean;
  /** No process starts, or the host is closed; the call itself has no fault. */
  readonly unavailable: boolean;
}

export interface CallHostOptions<Call, Wire, Reply, Message> extends Pick<
  ProcessesOptions<never>,
  'command' | 'frameBytesMax' | 'name' | 'onLog' | 'pingEveryMs'
> {
  /** Calls under way at a time; others wait here, where the end of a process does not affect them. */
  readonly callsMax: number;
  /** Calls after which a process is replaced. Default: never. */
  readonly recycleAfterCalls?: number;
  /** A call counts as started when it is sent. Default: when the process reports it as `starting`. */
  readonly isStartedWhenSent?: boolean;
  /** Time in which the process may tell how a cancelled call ended. Default: 0. Unit: milliseconds. */
  readonly cancelGraceMs?: number;
  /** Tells whose line of stderr this is. Default: the host's. */
  readonly sourceOf?: ProcessesOptions<never>['sourceOf'];
  /** Checks a message. Throws: it has another shape; the process is then killed. */
  readonly readMessage: (message: unknown) => FromHost<Wire> | Message;
  /** Whether a call may run again after its process ended under it. */
  readonly isRepeatable: (call: Call) => boolean;
  readonly replyOf: (call: Call, reply: Wire) => Reply;
  readonly endedReply: (call: Call, end: CallEnd) => Reply;
  /** Receives messages of the host's own kinds. `callOf` finds a call of the process; `send` answers the process. */
  readonly onMessage?: (
    message: Message,
    callOf: (id: number) => Call | undefined,
    send: (message: object) => boolean,
  ) => void;
}

/** Runs calls in a child process, which is restarted when it dies. */
export interface CallHost<Call, Reply> {
  /**
   * Runs a call; resolves with its reply and never rejects. `json` is the JSON object that is sent.
   * - A process that dies: calls that had not started run in the next one. Started ones run there once more, if they may be
   *   repeated; else they end as `crashed`.
   * - When `signal` fires, the call ends as `crashed`.
   */
  readonly runCall: (call: Call, json: string, signal: AbortSignal | undefined) => Promise<Reply>;
  readonly pid: () => number | undefined;
  /** Ends the process and all calls. Resolves when it is gone. Idempotent. */
  readonly close: () => Promise<void>;
}

interface PendingCall<Call, Reply> {
  readonly id: number;
  readonly call: Call;
  readonly json: string;
  readonly resolve: (reply: Reply) => void;
  /** Has the call; undefined: none. */
  process: HostProcess<PendingCall<Call, Reply>> | undefined;
  /** The current process was about to run it, or has. */
  started: boolean;
  /** A process ended while it may have been running. */
  interrupted: boolean;
  cancelled: boolean;
  resends: number;
}

/**
 * Starts the process; resolves once it takes calls.
 * Throws: Error with the reason if it does not start.
 */
export async function startCallHost<Call, Wire, Reply, Message extends { readonly kind: string } = never>(
  options: CallHostOptions<Call, Wire, Reply, Message>,
): Promise<CallHost<Call, Reply>> {
  type Pending = PendingCall<Call, Reply>;
  const { name, frameBytesMax, callsMax, recycleAfterCalls = Infinity, cancelGraceMs = 0 } = options;
  const spokenName = name.replace('-', ' ');
  const closedReason = `the ${spokenName} is closed; start another one`;
  const waiting = new Map<number, Pending>();
  const callsOfSignal = new WeakMap<AbortSignal, Set<Pending>>();
  const firstReady = Promise.withResolvers<void>();
  let nextId = 1;
  let isClosed = false;

  function end(pending: Pending, reason: string, started: boolean, unavailable = false): void {
    pending.resolve(options.endedReply(pending.call, { status: 'crashed', reason, started, unavailable }));
  }

  function endWaiting(reason: string): void {
    for (const pending of waiting.values()) end(pending, reason, pending.interrupted, true);
    waiting.clear();
  }

  function onMessage(process: HostProcess<Pending>, value: unknown): void {
    const message = options.readMessage(value);
    if (isCommon(message)) onCommonMessage(process, message);
    else
      options.onMessage?.(
        message,
        (id) => process.calls.get(id)?.call,
        (answer) => process.child.send(JSON.stringify(answer)),
      );
  }

  function onCommonMessage(process: HostProcess<Pending>, message: FromHost<Wire>): void {
    switch (message.kind) {
      case 'pong':
        return;
      case 'ready':
        processes.ready(process);
        firstReady.resolve();
        sendCalls();
        return;
      case 'starting':
        for (const id of message.ids) {
          const pending = process.calls.get(id);
          if (pending !== undefined) pending.started = true;
        }
        return;
      case 'ended': {
        const pending = process.calls.get(message.id);
        if (pending !== undefined) pending.resolve(options.replyOf(pending.call, message.reply));
        process.calls.delete(message.id);
        if (message.isBroken === true) processes.replace(process);
        processes.retire(process);
        sendCalls();
      }
    }
  }

  function sendCalls(): void {
    const process = processes.current;
    if (process === undefined) return;
    for (const pending of waiting.values()) {
      if (process.calls.size >= callsMax) return;
      waiting.delete(pending.id);
      // Its module may have changed meanwhile.
      if (pending.interrupted && !options.isRepeatable(pending.call)) {
        end(pending, `the ${spokenName} ended while the call was under way`, true);
        continue;
      }
      const { id, call, json, interrupted } = pending;
      if (!process.child.send(`{"kind":"call","id":${id},"repeated":${interrupted},${json.slice(1)}`)) {
        const reason = `arguments are too large: the call takes ${Buffer.byteLength(json)} bytes, the limit is ${frameBytesMax}`;
        pending.resolve(
          options.endedReply(call, { status: 'failed', reason, started: false, unavailable: false }),
        );
        continue;
      }
      process.calls.set(id, pending);
      pending.process = process;
      pending.started = options.isStartedWhenSent === true;
      process.callsSent += 1;
      if (process.callsSent >= recycleAfterCalls) processes.replace(process);
    }
  }

  function onDeath(process: HostProcess<Pending>, reason: string, said: string, isGivenUp: boolean): void {
    const lost = [...process.calls.values()];
    // Calls that had started explain the death: those that had not did not cause it.
    const isExplained = lost.some(({ started }) => started);
    for (const pending of lost) {
      const { started, interrupted, cancelled } = pending;
      const mayRunAgain = started
        ? !interrupted && options.isRepeatable(pending.call)
        : pending.resends < RESENDS_MAX;
      if (cancelled || !mayRunAgain) {
        end(
          pending,
          `the ${spokenName} ended while the call was under way: ${reason}`,
          started || interrupted,
        );
        continue;
      }
      if (!isExplained) pending.resends += 1;
      pending.interrupted ||= started;
      pending.started = false;
      pending.process = undefined;
      waiting.set(pending.id, pending);
    }
    process.calls.clear();
    const problem = `the ${spokenName} does not start: ${reason}`;
    firstReady.reject(new Error(`${problem}${said}`));
    if (isGivenUp) endWaiting(problem);
    else sendCalls();
  }

  function cancel(pending: Pending): void {
    const { id, process } = pending;
    pending.cancelled = true;
    if (waiting.delete(id)) {
      end(pending, explainGivenUp(pending.interrupted), pending.interrupted);
      return;
    }
    process?.child.send(JSON.stringify({ kind: 'cancel', id }));
    // It was sent, so it may have started: the message may be on its way. It keeps its place until the process ends it.
    const giveUp = (): void => end(pending, explainGivenUp(true), true);
    if (cancelGraceMs === 0) giveUp();
    else setTimeout(giveUp, cancelGraceMs).unref();
  }

  /** Returns the calls to cancel with the signal. One listener for all: a signal searches its listeners one by one. */
  function callsOf(signal: AbortSignal): Set<Pending> {
    const known = callsOfSignal.get(signal);
    if (known !== undefined) return known;
    const calls = new Set<Pending>();
    signal.addEventListener('abort', () => calls.forEach(cancel), { once: true });
    callsOfSignal.set(signal, calls);
    return calls;
  }

  const processes = superviseProcesses<Pending>({
    ...options,
    sourceOf: options.sourceOf ?? (() => 'host'),
    onMessage,
    onDeath,
  });

  async function close(): Promise<void> {
    isClosed = true;
    endWaiting(closedReason);
    for (const { calls } of processes.all)
      for (const pending of calls.values())
        end(pending, closedReason, pending.started || pending.interrupted, true);
    await processes.close();
  }

  await firstReady.promise.catch(async (error: unknown) => {
    await close();
    throw error;
  });

  return {
    pid: () => processes.current?.child.pid,
    close,
    async runCall(call, json, signal) {
      const refuse = (reason: string): Reply =>
        options.endedReply(call, { status: 'crashed', reason, started: false, unavailable: isClosed });
      if (isClosed) return refuse(closedReason);
      if (signal?.aborted === true) return refuse(explainGivenUp(false));
      const { promise, resolve } = Promise.withResolvers<Reply>();
      const pending: Pending = {
        id: nextId++,
        call,
        json,
        resolve,
        process: undefined,
        started: false,
        interrupted: false,
        cancelled: false,
        resends: 0,
      };
      waiting.set(pending.id, pending);
      const calls = signal === undefined ? undefined : callsOf(signal);
      calls?.add(pending);
      processes.wake();
      sendCalls();
      if (calls === undefined) return promise;
      const reply = await promise;
      calls.delete(pending);
      return reply;
    },
  };
}

const COMMON_KINDS: ReadonlySet<string> = new Set<FromHost<never>['kind']>([
  'ready',
  'starting',
  'ended',
  'pong',
]);

function isCommon<Wire>(message: FromHost<Wire> | { readonly kind: string }): message is FromHost<Wire> {
  return COMMON_KINDS.has(message.kind);
}

function explainGivenUp(mayHaveStarted: boolean): string {
  return `the caller gave up${mayHaveStarted ? '' : ' before the call started'}`;
}
