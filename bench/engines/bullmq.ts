import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import type { PrepareEngine } from './engine.ts';
import { acceptItems, countFloorRows, openFloorPool } from './floor-store.ts';
import { jobRounds, openOwnWork, type StepJob } from './own-work.ts';
import { applyLine, rowStore } from './rows.ts';

const QUEUE = 'steps';
const CONCURRENCY = 50;
const POOL_MAX = 10;

/** Runs one BullMQ job per step with the result line as its payload, and writes rows one at a time. */
export const prepareBullmq: PrepareEngine = async (context) => {
  const { url, redisUrl, runs } = context;
  if (redisUrl === null) throw new Error('BullMQ needs a redis-server on PATH.');
  const own = openOwnWork(context);
  const pool = await openFloorPool(url, POOL_MAX);
  const db = rowStore(pool);
  const rounds = jobRounds(pool, own.provider);
  const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const queue = new Queue<StepJob>(QUEUE, { connection });
  const worker = new Worker<StepJob>(
    QUEUE,
    async ({ data }) => {
      await applyLine(db, data.pbatch_id, data.line).catch((error: unknown) => rounds.fail(error));
      rounds.done(1);
    },
    { connection, concurrency: CONCURRENCY },
  );
  await worker.waitUntilReady();
  own.begin();
  const opts = { removeOnComplete: true, removeOnFail: 1000 };
  return {
    accept: () => acceptItems(pool, runs),
    run: () => rounds.run(runs, (jobs) => queue.addBulk(jobs.map((data) => ({ name: 'step', data, opts })))),
    figures: own.figures,
    count: () => countFloorRows(pool),
    async close() {
      await worker.close();
      await queue.close();
      connection.disconnect();
      await pool.end();
    },
  };
};
