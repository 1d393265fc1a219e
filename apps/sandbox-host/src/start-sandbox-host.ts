import type { SandboxFetch, SandboxReply, SandboxRequest } from './contract.ts';
import { answerFetch } from './fetches.ts';
import type { FromHost } from './frames.ts';
import {
  cancelCall,
  closeHosts,
  countCall,
  ensureHost,
  settleCall,
  startHosts,
  type Host,
  type Hosts,
} from './hosts.ts';
import { testJail, type SandboxLayer } from './jail.ts';
import {
  createPendingCall,
  endCall,
  failure,
  readArguments,
  toFrame,
  type PendingCall,
} from './pending-call.ts';

const THREADS_DEFAULT = 2;

export interface SandboxHostOptions {
  readonly fetch: SandboxFetch;
  /** Calls under way at a time. Default: 2. */
  readonly threads?: number;
  /** `off` leaves bubblewrap out even where it works. Default: `auto`. */
  readonly bubblewrap?: 'auto' | 'off';
  readonly onLog?: (line: string) => void;
}

export interface SandboxHost {
  /** The layers between uploaded code and the machine, and why one does not hold. */
  readonly layers: readonly SandboxLayer[];
  /** Runs a call. Never rejects. Calls beyond the threads wait here, where a crash does not affect them. */
  runCall(request: SandboxRequest, options?: { readonly signal?: AbortSignal }): Promise<SandboxReply>;
  /** The process that takes calls, or the jail around it. */
  pid(): number | undefined;
  /** Ends all calls and the process. */
  close(): Promise<void>;
}

interface Calls {
  readonly threads: number;
  readonly fetch: SandboxFetch;
  readonly hosts: Hosts;
  readonly pending: Set<PendingCall>;
  /** Pending calls that no process has. */
  readonly queue: PendingCall[];
  nextId: number;
  isClosed: boolean;
}

/**
 * Starts the sandbox host as a child process; resolves once it takes calls.
 * Throws: Error if it does not start.
 */
export async function startSandboxHost(options: SandboxHostOptions): Promise<SandboxHost> {
  const { threads = THREADS_DEFAULT, fetch } = options;
  const jail: SandboxLayer =
    options.bubblewrap === 'off'
      ? { name: 'bubblewrap', holds: false, reason: 'it is switched off' }
      : await testJail(process.execPath);
  const firstReady = Promise.withResolvers<void>();
  const hosts = startHosts({
    threads,
    isJailed: jail.holds,
    onLog: (line) => options.onLog?.(`[sandbox-host] ${line}`),
    onReady() {
      firstReady.resolve();
      sendCalls(calls);
    },
    onMessage: (host, message) => onMessage(calls, host, message),
    onInterrupted(interrupted, reason) {
      for (const call of interrupted.toReversed()) interrupt(calls, call, reason);
    },
    onGivenUp(problem) {
      firstReady.reject(new Error(problem));
      for (const call of calls.queue.splice(0)) endCall(call, failure('crashed', problem), true);
    },
  });
  const calls: Calls = { threads, fetch, hosts, pending: new Set(), queue: [], nextId: 1, isClosed: false };

  await firstReady.promise.catch(async (error: unknown) => {
    await close(calls);
    throw error;
  });
  return {
    layers: [
      { name: 'quickjs', holds: true },
      { name: 'process', holds: true },
      { name: 'permission', holds: true },
      jail,
    ],
    runCall: (request, { signal } = {}) => runCall(calls, request, signal),
    pid: () => hosts.current?.process.pid,
    close: () => close(calls),
  };
}

function runCall(
  calls: Calls,
  request: SandboxRequest,
  signal: AbortSignal | undefined,
): Promise<SandboxReply> {
  const { promise, resolve } = Promise.withResolvers<SandboxReply>();
  const given = readArguments(request);
  const call = createPendingCall(calls.nextId, request, 'text' in given ? given.text : '', resolve);
  calls.nextId += 1;
  if ('problem' in given) endCall(call, failure('failed', given.problem));
  else if (calls.isClosed) endCall(call, failure('crashed', 'the sandbox host is closed'));
  else if (signal?.aborted === true) endCall(call, failure('crashed', 'the caller gave up'));
  else {
    const { signal: ended } = call.ended;
    signal?.addEventListener('abort', () => cancel(calls, call), { once: true, signal: ended });
    calls.pending.add(call);
    ended.addEventListener('abort', () => calls.pending.delete(call), { once: true });
    calls.queue.push(call);
    ensureHost(calls.hosts);
    sendCalls(calls);
  }
  return promise;
}

function sendCalls({ hosts, queue, threads }: Calls): void {
  const host = hosts.current;
  while (host !== undefined && host.calls.size < threads) {
    const call = queue.shift();
    if (call === undefined) return;
    if (!host.process.send(toFrame(call))) {
      endCall(call, failure('failed', 'code and arguments exceed 1 MB together; send less in one call'));
      continue;
    }
    call.sends += 1;
    host.calls.set(call.id, call);
    countCall(hosts, host);
  }
}

function onMessage(calls: Calls, host: Host, message: FromHost): void {
  if (message.kind !== 'ended' && message.kind !== 'fetch') return;
  const call = host.calls.get(message.id);
  if (call === undefined) return;
  if (message.kind === 'fetch') {
    void onFetch(calls, host, call, message.fetch, message.request);
    return;
  }
  endCall(call, message.outcome);
  settleCall(calls.hosts, host, message.id, message.isBroken);
  sendCalls(calls);
}

async function onFetch(
  { fetch }: Calls,
  host: Host,
  call: PendingCall,
  number: number,
  text: string,
): Promise<void> {
  const answer = await answerFetch(text, call.request, call.fetches, fetch, call.ended.signal);
  const frame = { kind: 'fetched', id: call.id, fetch: number } as const;
  if (host.process.send({ ...frame, answer: JSON.stringify(answer) })) return;
  host.process.send({ ...frame, answer: JSON.stringify({ error: 'the response is too large' }) });
}

/** Queues a call of a dead process once more if it may be repeated. Only once: it may be the cause of the death. */
function interrupt({ queue }: Calls, call: PendingCall, reason: string): void {
  if (call.ended.signal.aborted) return;
  if (call.request.side_effects !== 'once' && call.sends === 1) queue.unshift(call);
  else endCall(call, failure('crashed', `the sandbox host ended while the call was under way: ${reason}`));
}

function cancel({ hosts, queue }: Calls, call: PendingCall): void {
  const at = queue.indexOf(call);
  if (at !== -1) queue.splice(at, 1);
  cancelCall(hosts, call.id);
  endCall(call, failure('crashed', 'the caller gave up'));
}

async function close(calls: Calls): Promise<void> {
  calls.isClosed = true;
  calls.queue.length = 0;
  for (const call of calls.pending) endCall(call, failure('crashed', 'the sandbox host is closed'));
  await closeHosts(calls.hosts);
}
