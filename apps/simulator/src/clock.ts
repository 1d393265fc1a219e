/** Cancels a scheduled task; harmless when it has run. */
export type CancelTask = () => void;

/** The time on which batches live: real, scaled, or moved by hand. */
export interface SimulatorClock {
  /** Milliseconds since the epoch, on this clock. */
  now(): number;
  /** Runs `task` once the clock shows `dueMs`; at once, but never synchronously, when it already does. */
  schedule(dueMs: number, task: () => void | Promise<void>): CancelTask;
  /** Moves the clock forward, running the tasks that fall due in their order, each at its own due time, and awaiting each. */
  advance(ms: number): Promise<void>;
  /** Like `advance`, to a point in time. A point in the past is refused with a RangeError. */
  advanceTo(targetMs: number): Promise<void>;
  /** 0 for a virtual clock, 1 for real time, k for time that runs k times as fast. */
  setRate(rate: number): void;
  /** Drops every task. */
  close(): void;
}

interface Task {
  readonly dueMs: number;
  readonly run: () => void | Promise<void>;
}

/** `real`, `virtual`, or `scaled:<k>`. */
export type ClockMode = 'real' | 'virtual' | `scaled:${number}`;

const LONGEST_TIMEOUT_MS = 1_000_000_000;

/** The rate of a clock mode. Throws a RangeError that names the mode when it is none. */
export function rateOfMode(mode: string): number {
  if (mode === 'real') return 1;
  if (mode === 'virtual') return 0;
  const rate = mode.startsWith('scaled:') ? Number(mode.slice('scaled:'.length)) : Number.NaN;
  if (!(rate > 0)) throw new RangeError(`clock mode "${mode}" is not one of real, virtual, scaled:<k>`);
  return rate;
}

/** Runs a task that nobody awaits: when it fails, standard error says so and the rest goes on. */
function start(task: Task | undefined): void {
  const running = async (): Promise<void> => task?.run();
  running().catch((error: unknown) => {
    process.stderr.write(`simulator: a task failed: ${(error as Error).stack ?? String(error)}\n`);
  });
}

/** Starts a clock at `startMs` (default: the machine's time). */
export function createClock(mode: ClockMode = 'real', startMs: number = Date.now()): SimulatorClock {
  let rate = rateOfMode(mode);
  let anchorSimMs = startMs;
  let anchorRealMs = performance.now();
  let advancing = false;
  let timeout: NodeJS.Timeout | undefined;
  const tasks: Task[] = [];

  const now = (): number =>
    rate === 0 ? anchorSimMs : anchorSimMs + (performance.now() - anchorRealMs) * rate;

  function anchorAt(simMs: number): void {
    anchorSimMs = simMs;
    anchorRealMs = performance.now();
  }

  function arm(): void {
    clearTimeout(timeout);
    timeout = undefined;
    const first = tasks[0];
    if (first === undefined || rate === 0 || advancing) return;
    const waitMs = Math.min(Math.max(0, Math.ceil((first.dueMs - now()) / rate)), LONGEST_TIMEOUT_MS);
    timeout = setTimeout(fire, waitMs);
  }

  function fire(): void {
    while (tasks[0] !== undefined && tasks[0].dueMs <= now()) start(tasks.shift());
    arm();
  }

  function schedule(dueMs: number, run: () => void | Promise<void>): CancelTask {
    const task: Task = { dueMs, run };
    const place = tasks.findLastIndex((other) => other.dueMs <= dueMs) + 1;
    tasks.splice(place, 0, task);
    if (rate === 0 && !advancing && dueMs <= anchorSimMs) setImmediate(runDueOnVirtual);
    else if (place === 0) arm();
    return () => {
      const index = tasks.indexOf(task);
      if (index >= 0) tasks.splice(index, 1);
      if (index === 0) arm();
    };
  }

  function runDueOnVirtual(): void {
    if (rate !== 0 || advancing) return;
    while (tasks[0] !== undefined && tasks[0].dueMs <= anchorSimMs) start(tasks.shift());
  }

  async function advanceTo(targetMs: number): Promise<void> {
    if (targetMs < now())
      throw new RangeError(`the clock stands at ${now()} ms and cannot be moved back to ${targetMs} ms`);
    if (advancing) throw new RangeError('the clock is being advanced; wait for that to end');
    advancing = true;
    clearTimeout(timeout);
    try {
      for (let next = tasks[0]; next !== undefined && next.dueMs <= targetMs; next = tasks[0]) {
        tasks.shift();
        if (next.dueMs > now()) anchorAt(next.dueMs);
        await next.run();
      }
      if (targetMs > now()) anchorAt(targetMs);
    } finally {
      advancing = false;
      arm();
    }
  }

  return {
    now,
    schedule,
    advance: (ms) => advanceTo(now() + ms),
    advanceTo,
    setRate: (next) => {
      anchorAt(now());
      rate = next;
      arm();
    },
    close: () => {
      clearTimeout(timeout);
      tasks.length = 0;
    },
  };
}
