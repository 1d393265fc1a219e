import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { watchEventLoop } from '../measure/event-loop.ts';
import { countStatements } from '../measure/statements.ts';
import { openProvider } from '../provider.ts';
import { customIdOf, lookUp, STEPS } from '../workload.ts';
import type { PrepareEngine } from './engine.ts';
import {
  acceptItems,
  countFloorRows,
  endProviderBatch,
  openFloorPool,
  REQUESTS_MAX,
  writeChunk,
  writeProviderBatch,
} from './floor-store.ts';
import { parseLine, textChunks } from './result-lines.ts';

const QUEUE = 'steps';
const JOBS_PER_INSERT = 1_000;
const JOBS_PER_HANDLER = 500;
const HANDLERS = 2;

interface StepJob {
  readonly pbatch_id: string;
  readonly line: string;
}

/** pg-boss as somebody uses it who knows: jobs inserted by the thousand, handled 500 at a time with one statement. */
export const preparePgBossBatch: PrepareEngine = async ({ url, dir, runs, scenario }) => {
  const counts = { statements: 0, transactions: 0 };
  countStatements(pg, counts);
  const provider = openProvider({ dir, scenario });
  const pool = await openFloorPool(url, HANDLERS);
  const boss = new PgBoss({ connectionString: url, max: 4 });
  let failed: unknown;
  let open = 0;
  let drained: () => void = () => undefined;
  boss.on('error', (error) => (failed = error));
  await boss.start();
  await boss.createQueue(QUEUE);
  await boss.work<StepJob>(
    QUEUE,
    {
      batchSize: JOBS_PER_HANDLER,
      localConcurrency: HANDLERS,
      pollingIntervalSeconds: 0.5,
      burstWhenBatchFull: true,
    },
    async (jobs) => {
      const lines = jobs.map(({ data }) => {
        const line = parseLine(data.line);
        return { ...line, result: line.call === null ? null : lookUp(line.call.input) };
      });
      await writeChunk(pool, jobs[0]?.data.pbatch_id ?? '', lines);
      open -= jobs.length;
      if (open === 0) drained();
    },
  );
  const loop = watchEventLoop();
  counts.statements = counts.transactions = 0;
  return {
    accept: () => acceptItems(pool, runs),
    async run() {
      for (let step = 1; step <= STEPS; step++) {
        for (let from = 0; from < runs; from += REQUESTS_MAX) {
          const size = Math.min(REQUESTS_MAX, runs - from);
          const id = provider.createBare(
            Array.from({ length: size }, (_, index) => customIdOf(from + index, step)),
          );
          await writeProviderBatch(pool, id, size);
          open = size;
          const done = new Promise<void>((resolve) => (drained = resolve));
          for await (const lines of textChunks(provider.results(id), JOBS_PER_INSERT)) {
            await boss.insert(
              QUEUE,
              lines.map((line) => ({ data: { pbatch_id: id, line } })),
            );
          }
          await done;
          if (failed !== undefined) throw failed as Error;
          await endProviderBatch(pool, id);
        }
      }
    },
    figures: () => ({
      provider_cpu_ms: provider.counts.cpu_ms,
      provider_calls: provider.counts.calls,
      body_bytes: provider.counts.body_bytes,
      counts,
      loop: loop(),
    }),
    count: () => countFloorRows(pool),
    async close() {
      await boss.stop({ graceful: false });
      await pool.end();
    },
  };
};
