import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { watchEventLoop } from '../measure/event-loop.ts';
import { countStatements } from '../measure/statements.ts';
import { openProvider } from '../provider.ts';
import { customIdOf, STEPS } from '../workload.ts';
import type { EngineContext, PrepareEngine } from './engine.ts';
import {
  acceptItems,
  countFloorRows,
  endProviderBatch,
  openFloorPool,
  REQUESTS_MAX,
  writeProviderBatch,
} from './floor-store.ts';
import { textChunks } from './result-lines.ts';
import { applyLine, rowStore } from './rows.ts';

const JOBS_PER_ADD = 1_000;
const CONCURRENCY = 50;
const POOL_MAX = 10;

interface StepJob {
  readonly pbatch_id: string;
  readonly line: string;
}

interface JobQueue {
  addBulk(jobs: { name: string; data: StepJob; opts: object }[]): Promise<unknown>;
  close(): Promise<void>;
}

/** One BullMQ job a step, its result line as the payload, rows written one at a time. */
export const prepareBullmq: PrepareEngine = async (context) => {
  const { url, dir, runs, scenario } = context;
  const counts = { statements: 0, transactions: 0 };
  countStatements(pg, counts);
  const provider = openProvider({ dir, scenario });
  const pool = await openFloorPool(url, POOL_MAX);
  const db = rowStore(pool);
  let open = 0;
  let failed: unknown;
  let drained: () => void = () => undefined;
  const { queue, close } = await openQueue(context, async ({ pbatch_id, line }) => {
    try {
      await applyLine(db, pbatch_id, line);
    } catch (error) {
      failed = error;
      throw error;
    } finally {
      open -= 1;
      if (open === 0) drained();
    }
  });
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
          for await (const lines of textChunks(provider.results(id), JOBS_PER_ADD)) {
            const opts = { removeOnComplete: true, removeOnFail: 1000 };
            await queue.addBulk(lines.map((line) => ({ name: 'step', data: { pbatch_id: id, line }, opts })));
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
      await close();
      await pool.end();
    },
  };
};

/** The queue lies in the Redis of the bench. */
async function openQueue(
  { redisUrl }: EngineContext,
  handle: (job: StepJob) => Promise<void>,
): Promise<{ readonly queue: JobQueue; readonly close: () => Promise<void> }> {
  const name = 'steps';
  if (redisUrl === null) throw new Error('BullMQ needs a redis-server on PATH.');
  const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const queue = new Queue<StepJob>(name, { connection });
  const worker = new Worker<StepJob>(name, (job) => handle(job.data), {
    connection,
    concurrency: CONCURRENCY,
  });
  await worker.waitUntilReady();
  const close = async (): Promise<void> => {
    await worker.close();
    await queue.close();
    connection.disconnect();
  };
  return { queue, close };
}
