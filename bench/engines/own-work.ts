/** The work of the engines other than the product: a provider, counters, and rounds of provider batches. */
import pg from 'pg';
import { watchEventLoop, type LoopDelay } from '../measure/event-loop.ts';
import { countStatements } from '../measure/statements.ts';
import { openProvider, type BenchProvider } from '../provider.ts';
import { customIdOf, STEPS } from '../workload.ts';
import type { EngineContext, EngineFigures } from './engine.ts';
import { endProviderBatch, REQUESTS_MAX, writeProviderBatch } from './floor-store.ts';
import { textChunks } from './result-lines.ts';

export interface OwnWork {
  readonly provider: BenchProvider;
  /** Resets the counters and starts the measurement. */
  readonly begin: () => void;
  readonly figures: () => EngineFigures;
}

/** Opens the provider and counts the statements of `pg` in this process. */
export function openOwnWork({ dir, scenario }: EngineContext): OwnWork {
  const counts = { statements: 0, transactions: 0 };
  countStatements(pg, counts);
  const provider = openProvider({ dir, scenario });
  let loop = (): LoopDelay => ({ p99_ms: 0, max_ms: 0 });
  return {
    provider,
    begin() {
      loop = watchEventLoop();
      counts.statements = counts.transactions = 0;
    },
    figures: () => ({
      provider_cpu_ms: provider.cpuMs(),
      counts,
      loop: loop(),
    }),
  };
}

/** Calls `work` with the runs of each provider batch; all batches of a step come before the next step. */
export async function eachProviderBatch(
  runs: number,
  work: (from: number, to: number, step: number) => Promise<void>,
): Promise<void> {
  for (let step = 1; step <= STEPS; step++)
    for (let from = 0; from < runs; from += REQUESTS_MAX)
      await work(from, Math.min(from + REQUESTS_MAX, runs), step);
}

/** A job: one result line. */
export interface StepJob {
  readonly pbatch_id: string;
  readonly line: string;
}

/** The queue's open jobs. */
export interface JobRounds {
  /** Takes every run to its end: each result line becomes a job, and a provider batch waits for its jobs. */
  readonly run: (runs: number, add: (jobs: readonly StepJob[]) => Promise<unknown>) => Promise<void>;
  readonly done: (jobs: number) => void;
  readonly fail: (error: unknown) => void;
}

const JOBS_PER_ADD = 1_000;

export function jobRounds(pool: pg.Pool, provider: BenchProvider): JobRounds {
  let open = 0;
  let failed: unknown;
  let drained: () => void = () => undefined;
  return {
    run: (runs, add) =>
      eachProviderBatch(runs, async (from, to, step) => {
        const ids = Array.from({ length: to - from }, (_, index) => customIdOf(from + index, step));
        const pbatch_id = provider.createBare(ids);
        await writeProviderBatch(pool, pbatch_id, ids.length);
        open = ids.length;
        const done = new Promise<void>((resolve) => (drained = resolve));
        for await (const lines of textChunks(provider.results(pbatch_id), JOBS_PER_ADD))
          await add(lines.map((line) => ({ pbatch_id, line })));
        await done;
        if (failed !== undefined) throw failed as Error;
        await endProviderBatch(pool, pbatch_id);
      }),
    done(jobs) {
      open -= jobs;
      if (open === 0) drained();
    },
    fail: (error) => void (failed = error),
  };
}
