import { PgBoss } from 'pg-boss';
import { lookUp } from '../workload.ts';
import type { PrepareEngine } from './engine.ts';
import { acceptItems, countFloorRows, openFloorPool, writeChunk } from './floor-store.ts';
import { jobRounds, openOwnWork, type StepJob } from './own-work.ts';
import { parseLine } from './result-lines.ts';

const QUEUE = 'steps';
const JOBS_PER_HANDLER = 500;
const HANDLERS = 2;

/** Runs pg-boss with jobs inserted by the thousand and handled 500 at a time with one statement. */
export const preparePgBossBatch: PrepareEngine = async (context) => {
  const { url, runs } = context;
  const own = openOwnWork(context);
  const pool = await openFloorPool(url, HANDLERS);
  const rounds = jobRounds(pool, own.provider);
  const boss = new PgBoss({ connectionString: url, max: 4 });
  boss.on('error', rounds.fail);
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
      rounds.done(jobs.length);
    },
  );
  own.begin();
  return {
    accept: () => acceptItems(pool, runs),
    run: () =>
      rounds.run(runs, (jobs) =>
        boss.insert(
          QUEUE,
          jobs.map((data) => ({ data })),
        ),
      ),
    figures: own.figures,
    count: () => countFloorRows(pool),
    async close() {
      await boss.stop({ graceful: false });
      await pool.end();
    },
  };
};
