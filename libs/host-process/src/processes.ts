import { startChild, type Child, type ChildOptions, type HostCommand } from './child.ts';

/** Consecutive unanswered pings after which a process is killed and restarted. */
const PINGS_UNANSWERED_MAX = 3;
const RESTART_DELAY_MS_MIN = 100;
const RESTART_DELAY_MS_MAX = 5_000;
/** Lifetime after which the end of a process does not count towards the delay of restarts. Unit: milliseconds. */
const STABLE_AFTER_MS = 30_000;
/** Consecutive failed starts after which the process is given up, until it is wanted again. */
const FAILED_STARTS_MAX = 5;
const PING = JSON.stringify({ kind: 'ping' });

/** A host process with its calls. */
export interface HostProcess<Call> {
  readonly child: Child;
  readonly startedMs: number;
  /** Calls sent to it that have not ended, by id. */
  readonly calls: Map<number, Call>;
  callsSent: number;
  unanswered: number;
  isReady: boolean;
}

export interface ProcessesOptions<Call> extends Pick<ChildOptions, 'frameBytesMax' | 'sourceOf' | 'onLog'> {
  /** Name of the host in log lines: `net-host`. */
  readonly name: string;
  /** Called at each start. */
  readonly command: () => HostCommand;
  /** A process that misses three pings is killed. */
  readonly pingEveryMs: number;
  readonly onMessage: (process: HostProcess<Call>, message: unknown) => void;
  /** A process ended; unless `isGivenUp`, another one is about to start. */
  readonly onDeath: (process: HostProcess<Call>, reason: string, said: string, isGivenUp: boolean) => void;
}

/** Keeps one process alive. While it is replaced there are two. */
export interface Processes<Call> {
  /** Takes calls. */
  readonly current: HostProcess<Call> | undefined;
  readonly all: ReadonlySet<HostProcess<Call>>;
  /** Marks the process as ready: it takes calls from now on, and its predecessor ends with its last call. */
  ready(process: HostProcess<Call>): void;
  /** Starts a process if none takes calls or is about to. */
  wake(): void;
  /** Starts a successor; the process goes on until that is ready. */
  replace(process: HostProcess<Call>): void;
  /** Ends a process that has been replaced and has no calls. */
  retire(process: HostProcess<Call>): void;
  /** Ends all processes for good; resolves when they are gone. */
  close(): Promise<void>;
}

/** Starts the process, and restarts it when it dies or gives no sign of life. */
export function superviseProcesses<Call>(options: ProcessesOptions<Call>): Processes<Call> {
  const { name, frameBytesMax, sourceOf, onLog } = options;
  const all = new Set<HostProcess<Call>>();
  const allGone = Promise.withResolvers<void>();
  let current: HostProcess<Call> | undefined;
  let next: HostProcess<Call> | undefined;
  let restartTimer: NodeJS.Timeout | undefined;
  let deathsInARow = 0;
  let failedStarts = 0;
  let isClosed = false;

  function start(): void {
    restartTimer = undefined;
    const child = startChild({
      command: options.command(),
      frameBytesMax,
      sourceOf,
      onLog,
      onMessage(message) {
        process.unanswered = 0;
        options.onMessage(process, message);
      },
      onGone: (reason, said) => onGone(process, reason, said),
    });
    const startedMs = performance.now();
    const process: HostProcess<Call> = {
      child,
      startedMs,
      calls: new Map(),
      callsSent: 0,
      unanswered: 0,
      isReady: false,
    };
    all.add(process);
    next = process;
  }

  function onGone(process: HostProcess<Call>, reason: string, said: string): void {
    const isRetired = process.isReady && process !== current;
    all.delete(process);
    if (process === current) current = undefined;
    if (process === next) next = undefined;
    if (isClosed) {
      if (all.size === 0) allGone.resolve();
      return;
    }
    if (isRetired && process.calls.size === 0) return;
    onLog(`[${name}] process gone: ${reason}${said}`, 'host');
    failedStarts = process.isReady ? 0 : failedStarts + 1;
    deathsInARow = performance.now() - process.startedMs > STABLE_AFTER_MS ? 1 : deathsInARow + 1;
    // A successor that does not start leaves the calls to its predecessor.
    const isGivenUp = failedStarts >= FAILED_STARTS_MAX && current === undefined;
    options.onDeath(process, reason, said, isGivenUp);
    if (!isGivenUp && current === undefined && next === undefined) startSoon();
  }

  /** Starts a process, with a delay if several died in a row. */
  function startSoon(): void {
    const delayMs = deathsInARow < 2 ? 0 : RESTART_DELAY_MS_MIN * 2 ** (deathsInARow - 2);
    restartTimer ??= setTimeout(start, Math.min(RESTART_DELAY_MS_MAX, delayMs));
  }

  function retire(process: HostProcess<Call>): void {
    if (process.isReady && process !== current && process.calls.size === 0) process.child.kill();
  }

  const pinger = setInterval(() => {
    for (const process of all) {
      // Counted in ticks, not in time: a suspended worker must not blame the process for the silence.
      if (process.unanswered >= PINGS_UNANSWERED_MAX) {
        onLog(`[${name}] no sign of life; ending the process`, 'host');
        process.child.kill();
      }
      process.unanswered += 1;
      process.child.send(PING);
    }
  }, options.pingEveryMs);
  pinger.unref();
  start();

  return {
    all,
    get current() {
      return current;
    },
    ready(process) {
      const previous = current;
      process.isReady = true;
      failedStarts = 0;
      current = process;
      next = undefined;
      if (previous !== undefined) retire(previous);
    },
    wake() {
      if (current === undefined && next === undefined && restartTimer === undefined && !isClosed) start();
    },
    replace(process) {
      if (process === current && next === undefined && !isClosed) startSoon();
    },
    retire,
    close() {
      isClosed = true;
      clearInterval(pinger);
      clearTimeout(restartTimer);
      if (all.size === 0) allGone.resolve();
      for (const { child } of all) child.kill();
      return allGone.promise;
    },
  };
}
