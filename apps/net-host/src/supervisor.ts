import { startChild, type Child } from './child.ts';
import { encodeFrame, type FromHost } from './protocol.ts';

/** Consecutive unanswered pings after which the process is killed and restarted. */
const PINGS_UNANSWERED_MAX = 3;
const RESTART_DELAY_MS_MIN = 100;
const RESTART_DELAY_MS_MAX = 5_000;
/** Lifetime after which the end of a process does not count towards the delay of restarts. */
const STABLE_AFTER_MS = 30_000;
/** Consecutive failed starts after which the process is given up, until it is wanted again. */
const FAILED_STARTS_MAX = 5;

export interface SupervisorOptions {
  readonly nodePath: string;
  readonly pingEveryMs: number;
  readonly onLog: (line: string) => void;
  readonly onMessage: (message: FromHost) => void;
  /** The process has died; another one is about to start. */
  readonly onDeath: (reason: string) => void;
  /** The process does not start. */
  readonly onGivenUp: (reason: string) => void;
}

/** Keeps one process alive. */
export interface Supervisor {
  /** Sends an encoded frame; dropped while no process is up. */
  send(frame: Buffer): void;
  /** Whether the process takes calls. */
  isReady(): boolean;
  pid(): number | undefined;
  /** Starts the process again if it was given up. */
  wake(): void;
  /** Ends the process for good; resolves when it is gone. */
  close(): Promise<void>;
}

/** Starts the process, and restarts it when it dies or gives no sign of life. */
export function superviseChild(options: SupervisorOptions): Supervisor {
  const { nodePath, pingEveryMs, onLog } = options;
  const gone = Promise.withResolvers<void>();
  let child: Child | undefined;
  let isReady = false;
  let isClosed = false;
  let startedMs = 0;
  let deathsInARow = 0;
  let failedStarts = 0;
  let unanswered = 0;
  let restartTimer: NodeJS.Timeout | undefined;

  function start(): void {
    restartTimer = undefined;
    startedMs = performance.now();
    unanswered = 0;
    child = startChild({ nodePath, onLog, onMessage, onGone });
  }

  function onMessage(message: FromHost): void {
    unanswered = 0;
    isReady ||= message.kind === 'ready';
    options.onMessage(message);
  }

  function onGone(reason: string): void {
    failedStarts = isReady ? 0 : failedStarts + 1;
    child = undefined;
    isReady = false;
    if (isClosed) {
      gone.resolve();
      return;
    }
    onLog(`[net-host] process gone: ${reason}`);
    options.onDeath(reason);
    if (failedStarts >= FAILED_STARTS_MAX) {
      options.onGivenUp(reason);
      return;
    }
    deathsInARow = performance.now() - startedMs > STABLE_AFTER_MS ? 1 : deathsInARow + 1;
    const delayMs = deathsInARow === 1 ? 0 : RESTART_DELAY_MS_MIN * 2 ** (deathsInARow - 2);
    restartTimer = setTimeout(start, Math.min(RESTART_DELAY_MS_MAX, delayMs));
  }

  const pinger = setInterval(() => {
    // Counted in ticks, not in time: a suspended worker must not blame the process for the silence.
    if (unanswered >= PINGS_UNANSWERED_MAX) {
      onLog('[net-host] no sign of life; ending the process');
      child?.kill();
    }
    unanswered += 1;
    child?.send(encodeFrame({ kind: 'ping' }));
  }, pingEveryMs);
  pinger.unref();
  start();

  return {
    send: (frame) => child?.send(frame),
    isReady: () => isReady,
    pid: () => child?.pid,
    wake() {
      if (child === undefined && restartTimer === undefined && !isClosed) start();
    },
    close() {
      isClosed = true;
      clearInterval(pinger);
      clearTimeout(restartTimer);
      if (child === undefined) gone.resolve();
      child?.kill();
      return gone.promise;
    },
  };
}
