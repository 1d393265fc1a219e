import type pg from 'pg';
import type { Stack } from '../stack/stack.ts';
import type { StackProcess } from '../stack/processes.ts';

/** What was done to the workers, and how long their work waited. */
export interface Toll {
  kills: number;
  zombies: number;
  connections_cut: number;
  /** Workers that could not start, as when their first connection was cut; another was started instead. */
  failed_starts: number;
  /** Milliseconds from a kill to the moment a row that the victim held was taken over. */
  readonly recoveries_ms: number[];
  /** Rows in the hands of a worker at its death that nobody has taken over yet, by victim and row. */
  readonly waiting: Map<string, number>;
}

/** Breaks workers at random until it is stopped; keeps `workers` of them running. */
export interface Killer {
  readonly toll: Toll;
  /** Starts what is missing, thaws what is frozen, and breaks nothing more. */
  stop(): Promise<void>;
}

interface KillerOptions {
  readonly workers: number;
  /** Milliseconds between two acts. */
  readonly interval_ms: number;
  /** Milliseconds that a frozen worker stays frozen: past its lease. */
  readonly freeze_ms: number;
  readonly random: () => number;
}

/** Starts killing: seven of ten acts are SIGKILL, two freeze a worker past its lease, one cuts database connections. */
export function startKiller(stack: Stack, pool: pg.Pool, options: KillerOptions): Killer {
  const toll: Toll = {
    kills: 0,
    zombies: 0,
    connections_cut: 0,
    failed_starts: 0,
    recoveries_ms: [],
    waiting: new Map(),
  };
  const alive = new Set<StackProcess>(stack.workers);
  const frozen = new Set<StackProcess>();
  const pending = new Set<Promise<unknown>>();
  let incarnation = 0;
  let stopped = false;
  for (const worker of alive) watchTakeovers(worker, toll);

  // As an orchestrator would: what ends before it is at work is started again, but not for ever.
  const start = async (triesLeft = 4): Promise<void> => {
    incarnation += 1;
    try {
      const worker = await stack.addWorker(`chaos-${incarnation}`);
      watchTakeovers(worker, toll);
      alive.add(worker);
    } catch (error) {
      toll.failed_starts += 1;
      if (triesLeft === 0) throw error;
      await start(triesLeft - 1);
    }
  };
  const during = (task: Promise<unknown>): void => {
    pending.add(task);
    void task.finally(() => pending.delete(task));
  };
  const kill = async (worker: StackProcess): Promise<void> => {
    alive.delete(worker);
    await worker.kill();
    toll.kills += 1;
    const killedAt = performance.now();
    for (const row of await rowsHeldBy(pool, worker.name))
      toll.waiting.set(`${worker.name} ${row}`, killedAt);
    during(start());
  };
  const freeze = async (worker: StackProcess): Promise<void> => {
    alive.delete(worker);
    frozen.add(worker);
    process.kill(worker.pid, 'SIGSTOP');
    toll.zombies += 1;
    await new Promise((resolve) => setTimeout(resolve, options.freeze_ms));
    if (worker.alive()) process.kill(worker.pid, 'SIGCONT');
    frozen.delete(worker);
    alive.add(worker);
  };
  const act = async (): Promise<void> => {
    const candidates = [...alive];
    const worker = candidates[Math.floor(options.random() * candidates.length)];
    const dice = options.random();
    if (dice < 0.1) toll.connections_cut += await cutConnections(pool);
    else if (worker === undefined || candidates.length < 2) return;
    else if (dice < 0.3 && frozen.size === 0) during(freeze(worker));
    else await kill(worker);
  };
  const loop = async (): Promise<void> => {
    while (!stopped) {
      await act();
      await new Promise((resolve) => setTimeout(resolve, options.interval_ms * (0.5 + options.random())));
    }
  };
  const running = loop();
  return {
    toll,
    async stop() {
      stopped = true;
      await running;
      while (pending.size > 0) await Promise.all(pending);
      while (alive.size < options.workers) await start();
    },
  };
}

/** Notes when a row of a dead worker is taken over, by what the others log. */
function watchTakeovers(worker: StackProcess, toll: Toll): void {
  worker.onLine((line) => {
    if (!line.includes('"taken_over_from":"')) return;
    const report = JSON.parse(line) as {
      taken_over_from: string;
      provider_batch_id?: string;
      chunk_id?: string;
      batch_id?: string;
    };
    const row = report.provider_batch_id ?? report.chunk_id ?? report.batch_id ?? '';
    const key = `${report.taken_over_from} ${row}`;
    const killedAt = toll.waiting.get(key);
    if (killedAt === undefined) return;
    toll.waiting.delete(key);
    toll.recoveries_ms.push(performance.now() - killedAt);
  });
}

/**
 * Rows whose lease the victim held when it died. One on its way to the provider is left out: nobody may touch it before
 * the create has timed out and the quarantine is over.
 */
async function rowsHeldBy(pool: pg.Pool, owner: string): Promise<readonly string[]> {
  const { rows } = await pool.query<{ id: string }>(
    `select id from provider_batch where lease_owner = $1 and lease_until > app_now() and state in ('building', 'ended')
     union all select id from run_chunk where lease_owner = $1 and lease_until > app_now()`,
    [owner],
  );
  return rows.map((row) => row.id);
}

/** Cuts about a third of the workers' connections, in the middle of whatever they do. */
async function cutConnections(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(pg_terminate_backend(pid))::int as count from pg_stat_activity
      where application_name like 'nightshift-worker%' and random() < 0.3`,
  );
  return rows[0]?.count ?? 0;
}
