import type pg from 'pg';
import type { Stack } from '../stack/stack.ts';
import { leaseOwnerPrefix, type StackProcess } from '../stack/processes.ts';

/** Counts of strikes, and the time that interrupted work waited. */
export interface StrikeCounts {
  kills: number;
  pauses: number;
  connections_cut: number;
  /** Workers that failed to start, as when their first connection was cut. Another was started instead. */
  failed_starts: number;
  /** Workers that ended by themselves while at work: name, end, log. */
  readonly unexpected_ends: string[];
  /** Milliseconds from a kill until another worker took a row of the victim. */
  readonly recoveries_ms: number[];
  /** Rows of dead workers that no worker has taken yet. */
  readonly waiting: Set<HeldRow>;
}

/** A row that a worker held when it died. */
interface HeldRow {
  readonly id: string;
  readonly epoch: number;
  readonly killed_at: number;
}

/** Strikes workers at random and keeps `workers` of them running. */
export interface Killer {
  /** Counts unexpected ends as long as there are workers. */
  readonly strikes: StrikeCounts;
  /** Stops striking, starts missing workers and resumes paused ones. */
  stop(): Promise<void>;
}

interface KillerOptions {
  readonly workers: number;
  /** Milliseconds between two strikes. */
  readonly interval_ms: number;
  /** Milliseconds of a pause: longer than a lease. */
  readonly freeze_ms: number;
  readonly random: () => number;
  /** Ends all strikes and starts when it is aborted. */
  readonly told?: AbortSignal;
}

/**
 * Milliseconds between two checks of dead workers' rows, and the time of these checks after the last kill.
 */
const LOOK_INTERVAL_MS = 250;
const GIVE_UP_MS = 30_000;

/**
 * Starts striking: seven of ten strikes are SIGKILL, two pause a worker beyond its lease, one cuts database
 * connections.
 */
export function startKiller(stack: Stack, pool: pg.Pool, options: KillerOptions): Killer {
  const strikes: StrikeCounts = {
    kills: 0,
    pauses: 0,
    connections_cut: 0,
    failed_starts: 0,
    unexpected_ends: [],
    recoveries_ms: [],
    waiting: new Set(),
  };
  const alive = new Set<StackProcess>();
  const frozen = new Set<StackProcess>();
  const struck = new Set<StackProcess>();
  const pending = new Set<Promise<unknown>>();
  /** Errors of starts and strikes, thrown by `stop`. */
  const failures: unknown[] = [];
  let incarnation = 0;
  let stopped = false;
  const isTold = (): boolean => options.told?.aborted === true;

  /** Tells whether a strike ended the worker: it may have been ending already. */
  const isOurs = (worker: StackProcess): boolean => struck.has(worker) && worker.endedBy() === 'SIGKILL';
  const takeIn = (worker: StackProcess): void => {
    alive.add(worker);
    void worker.ended.then(() => {
      alive.delete(worker);
      if (isOurs(worker)) return;
      strikes.unexpected_ends.push(
        `${worker.name} ended by itself (${worker.endedBy()}); its log: ${worker.logFile}`,
      );
      if (!stopped) during(start());
    });
  };
  // Like an orchestrator: starts a worker again that ended before it was at work, with a limited number of
  // tries.
  const start = async (triesLeft = 4): Promise<void> => {
    if (isTold()) return;
    incarnation += 1;
    try {
      takeIn(await stack.addWorker(`chaos-${incarnation}`));
    } catch (error) {
      strikes.failed_starts += 1;
      if (triesLeft === 0) throw error;
      await start(triesLeft - 1);
    }
  };
  const during = (task: Promise<unknown>): void => {
    pending.add(task);
    void task.catch((error: unknown) => failures.push(error)).finally(() => pending.delete(task));
  };
  const kill = async (worker: StackProcess): Promise<void> => {
    alive.delete(worker);
    struck.add(worker);
    await worker.kill();
    if (!isOurs(worker)) return;
    strikes.kills += 1;
    const killed_at = performance.now();
    for (const row of await rowsHeldBy(pool, worker)) strikes.waiting.add({ ...row, killed_at });
    during(start());
  };
  const freeze = async (worker: StackProcess): Promise<void> => {
    if (!worker.freeze()) return;
    alive.delete(worker);
    frozen.add(worker);
    strikes.pauses += 1;
    await new Promise((resolve) => setTimeout(resolve, options.freeze_ms));
    frozen.delete(worker);
    if (!worker.alive()) return;
    worker.thaw();
    alive.add(worker);
  };
  const act = async (): Promise<void> => {
    // An ended process is not struck: its pid may belong to another process.
    const candidates = [...alive].filter((worker) => worker.alive());
    const worker = candidates[Math.floor(options.random() * candidates.length)];
    const dice = options.random();
    if (dice < 0.1) strikes.connections_cut += await cutConnections(pool);
    else if (worker === undefined || candidates.length < 2) return;
    else if (dice < 0.3 && frozen.size === 0) during(freeze(worker));
    else await kill(worker);
  };
  const loop = async (): Promise<void> => {
    while (!stopped && !isTold()) {
      await act();
      await new Promise((resolve) => setTimeout(resolve, options.interval_ms * (0.5 + options.random())));
    }
  };
  stack.workers.forEach(takeIn);
  const running = loop();
  const watch = watchRecoveries(pool, strikes);
  return {
    strikes,
    async stop() {
      stopped = true;
      await running;
      while (pending.size > 0) await Promise.allSettled(pending);
      if (failures.length > 0) throw failures[0];
      // A limited number of starts, since workers that end by themselves never suffice.
      for (let missing = options.workers - alive.size; missing > 0; missing--) await start();
      await watch.stop();
    },
  };
}

/**
 * Checks the rows of dead workers until it is stopped and no row waits, or for {@link GIVE_UP_MS} after the
 * stop.
 */
function watchRecoveries(pool: pg.Pool, strikes: StrikeCounts): { stop(): Promise<void> } {
  const until = { ms: Number.POSITIVE_INFINITY, isStopped: false };
  const watching = (async () => {
    while ((!until.isStopped || strikes.waiting.size > 0) && performance.now() < until.ms) {
      await noteTaken(pool, strikes);
      await new Promise((resolve) => setTimeout(resolve, LOOK_INTERVAL_MS));
    }
  })();
  return {
    async stop() {
      until.isStopped = true;
      until.ms = performance.now() + GIVE_UP_MS;
      await watching;
    },
  };
}

/** Notes which rows of dead workers were taken over, or were released by the victim's last commit. */
async function noteTaken(pool: pg.Pool, strikes: StrikeCounts): Promise<void> {
  if (strikes.waiting.size === 0) return;
  const rows = [...strikes.waiting];
  const { rows: still } = await pool.query<{ id: string; epoch: number }>(
    `select id, lease_epoch as epoch from provider_batch where id = any($1::uuid[]) and state in ('building', 'ended')
     union all select id, lease_epoch from run_chunk where id = any($1::uuid[])`,
    [rows.map((row) => row.id)],
  );
  const waits = new Set(still.map(({ id, epoch }) => `${id} ${epoch}`));
  const now = performance.now();
  for (const row of rows) {
    if (waits.has(`${row.id} ${row.epoch}`)) continue;
    strikes.waiting.delete(row);
    strikes.recoveries_ms.push(now - row.killed_at);
  }
}

/**
 * Finds the rows whose lease the victim held. A provider batch under submission is left out: it stays
 * untouched until the create's timeout and the quarantine are over.
 */
async function rowsHeldBy(
  pool: pg.Pool,
  victim: StackProcess,
): Promise<readonly { readonly id: string; readonly epoch: number }[]> {
  const { rows } = await pool.query<{ id: string; epoch: number }>(
    `select id, lease_epoch as epoch from provider_batch
      where starts_with(lease_owner, $1) and lease_until > app_now() and state in ('building', 'ended')
     union all select id, lease_epoch from run_chunk where starts_with(lease_owner, $1) and lease_until > app_now()`,
    [leaseOwnerPrefix(victim)],
  );
  return rows;
}

/** Cuts about a third of the workers' connections. */
async function cutConnections(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(pg_terminate_backend(pid))::int as count from pg_stat_activity
      where (application_name like 'nightshift-worker%' or application_name = 'nightshift queue') and random() < 0.3`,
  );
  return rows[0]?.count ?? 0;
}
