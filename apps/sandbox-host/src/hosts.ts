import type { FromHost } from './frames.ts';
import { startHostProcess, type HostProcess } from './host-process.ts';
import type { PendingCall } from './pending-call.ts';

const RECYCLE_AFTER_CALLS = 1_000;
const PING_EVERY_MS = 5_000;
/** Consecutive unanswered pings after which the process is killed and restarted. */
const PINGS_UNANSWERED_MAX = 6;
const RESTART_DELAY_MS_MAX = 5_000;
/** Consecutive failed starts after which waiting calls end. The next call tries again. */
const FAILED_STARTS_MAX = 5;
/** Maximum time from a start to `ready`. Unit: milliseconds. */
const START_TIMEOUT_MS = 30_000;

/** A host process and its calls under way. */
export interface Host {
  readonly process: HostProcess;
  readonly calls: Map<number, PendingCall>;
  isReady: boolean;
  callCount: number;
  unanswered: number;
}

export interface HostsOptions {
  readonly threads: number;
  readonly isJailed: boolean;
  readonly onLog: (line: string) => void;
  /** A process takes calls. */
  readonly onReady: () => void;
  readonly onMessage: (host: Host, message: FromHost) => void;
  /** A process ended while these calls were under way. */
  readonly onInterrupted: (calls: readonly PendingCall[], reason: string) => void;
  /** No process starts. */
  readonly onGivenUp: (problem: string) => void;
}

/** The processes of a sandbox host. */
export interface Hosts {
  readonly options: HostsOptions;
  readonly all: Set<Host>;
  /** Takes calls. */
  current: Host | undefined;
  /** Starts, to take over. Processes that are neither end with their last call. */
  next: Host | undefined;
  restartTimer: NodeJS.Timeout | undefined;
  pingTimer: NodeJS.Timeout | undefined;
  failedStarts: number;
  isClosed: boolean;
  readonly allGone: PromiseWithResolvers<void>;
}

/** Starts the first process. It is replaced after 1,000 calls or an error of its own, and restarted when it dies. */
export function startHosts(options: HostsOptions): Hosts {
  const hosts: Hosts = {
    options,
    all: new Set(),
    current: undefined,
    next: undefined,
    restartTimer: undefined,
    pingTimer: undefined,
    failedStarts: 0,
    isClosed: false,
    allGone: Promise.withResolvers<void>(),
  };
  hosts.pingTimer = setInterval(() => ping(hosts), PING_EVERY_MS);
  hosts.pingTimer.unref();
  start(hosts);
  return hosts;
}

/** Starts a process if none takes calls or is about to. */
export function ensureHost(hosts: Hosts): void {
  if (hosts.current !== undefined || hosts.next !== undefined || hosts.restartTimer !== undefined) return;
  const delay = hosts.failedStarts === 0 ? 0 : 100 * 2 ** hosts.failedStarts;
  hosts.restartTimer = setTimeout(() => start(hosts), Math.min(delay, RESTART_DELAY_MS_MAX));
}

/** Counts a call that was sent. */
export function countCall(hosts: Hosts, host: Host): void {
  host.callCount += 1;
  if (host.callCount >= RECYCLE_AFTER_CALLS) replace(hosts, host);
}

/** Ends a call in its process. */
export function cancelCall(hosts: Hosts, id: number): void {
  for (const host of hosts.all) if (host.calls.has(id)) host.process.send({ kind: 'cancel', id });
}

/** Removes a call that has ended. `isBroken`: its process must be replaced. */
export function settleCall(hosts: Hosts, host: Host, id: number, isBroken: boolean): void {
  host.calls.delete(id);
  if (isBroken) replace(hosts, host);
  if (host !== hosts.current) killIfIdle(host);
}

/** Ends all processes. */
export async function closeHosts(hosts: Hosts): Promise<void> {
  hosts.isClosed = true;
  clearInterval(hosts.pingTimer);
  clearTimeout(hosts.restartTimer);
  if (hosts.all.size === 0) hosts.allGone.resolve();
  for (const host of hosts.all) host.process.kill();
  await hosts.allGone.promise;
}

function start(hosts: Hosts): void {
  hosts.restartTimer = undefined;
  const { threads, isJailed, onLog, onMessage } = hosts.options;
  const process = startHostProcess({
    threads,
    isJailed,
    onLog,
    onMessage(message) {
      host.unanswered = 0;
      if (message.kind === 'ready') onReady(hosts, host);
      else onMessage(host, message);
    },
    onGone(reason) {
      clearTimeout(startTimer);
      onGone(hosts, host, reason);
    },
  });
  const host: Host = { process, calls: new Map(), isReady: false, callCount: 0, unanswered: 0 };
  const startTimer = setTimeout(() => {
    if (!host.isReady) process.kill();
  }, START_TIMEOUT_MS);
  hosts.all.add(host);
  hosts.next = host;
}

function onReady(hosts: Hosts, host: Host): void {
  const previous = hosts.current;
  host.isReady = true;
  hosts.current = host;
  hosts.next = undefined;
  hosts.failedStarts = 0;
  if (previous !== undefined) killIfIdle(previous);
  hosts.options.onReady();
}

function onGone(hosts: Hosts, host: Host, reason: string): void {
  const { onLog, onInterrupted, onGivenUp } = hosts.options;
  hosts.all.delete(host);
  const isRetired = host.isReady && host !== hosts.current;
  if (host === hosts.current) hosts.current = undefined;
  if (host === hosts.next) hosts.next = undefined;
  if (hosts.isClosed) {
    if (hosts.all.size === 0) hosts.allGone.resolve();
    return;
  }
  if (isRetired && host.calls.size === 0) return;
  onLog(`process gone: ${reason}`);
  if (!host.isReady) hosts.failedStarts += 1;
  onInterrupted([...host.calls.values()], reason);
  if (hosts.failedStarts >= FAILED_STARTS_MAX) onGivenUp(`the sandbox host does not start: ${reason}`);
  else ensureHost(hosts);
}

function killIfIdle(host: Host): void {
  if (host.calls.size === 0) host.process.kill();
}

/** Starts the successor; the current process goes on until it is ready. */
function replace(hosts: Hosts, host: Host): void {
  if (host === hosts.current && hosts.next === undefined) start(hosts);
}

function ping(hosts: Hosts): void {
  for (const host of hosts.all) {
    // Counted in ticks, not in time: a suspended worker must not blame the process for the silence.
    if (host.unanswered >= PINGS_UNANSWERED_MAX) host.process.kill();
    host.unanswered += 1;
    host.process.send({ kind: 'ping' });
  }
}
