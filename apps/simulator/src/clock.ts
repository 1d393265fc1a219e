/** Cancels a scheduled task; without effect after its run. */
export type CancelTask = () => void;

/** The clock of batches: real, scaled, or virtual. */
export interface SimulatorClock {
  /** Milliseconds since the epoch by this clock. */
  now(): number;
  /** Runs `task` at `dueMs`, or as soon as possible if that has passed; never synchronously. */
  schedule(dueMs: number, task: () => void | Promise<void>): CancelTask;
  /** Advances the clock; runs and awaits the due tasks in order, each at its own due time. */
  advance(ms: number): Promise<void>;
  /**
   * Advances to a time.
   * Throws: RangeError for a time in the past.
   */
  advanceTo(targetMs: number): Promise<void>;
  /** Speed factor: 0 virtual, 1 real, k scaled. */
  setRate(rate: number): void;
  /** Cancels all tasks. */
  close(): void;
}

interface Task {
  readonly dueMs: number;
  readonly run: () => void | Promise<void>;
}

/** `real`, `virtual`, or `scaled:<k>`. */
export type ClockMode = 'real' | 'virtual' | `scaled:${number}`;

const LONGEST_TIMEOUT_MS = 1_000_000_000;

/**
 * Returns the speed factor of a clock mode.
 * Throws: RangeError that names an unknown mode.
 */
export function rateOfMode(mode: string): number {
  if (mode === 'real') return 1;
  if (mode === 'virtual') return 0;
  const rate = mode.startsWith('scaled:') ? Number(mode.slice('scaled:'.length)) : Number.NaN;
  if (!(rate > 0)) throw new RangeError(`clock mode "${mode}" is not one of real, virtual, scaled:<k>`);
  return rate;
}

/** Runs a task without awaiting it; a failure is written to standard error. */
function start(task: Task | undefined): void {
  const running = async (): Promise<void> => task?.run();
  running().catch((error: unknown) => {
    process.stderr.write(`simulator: a task failed: ${(error as Error).stack ?? String(error)}\n`);
  });
}

/** Creates a clock at `startMs`. Default: the machine's time. */
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
