/** The status of a batch, asked for while its runs are being carried out. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { findFreePort } from '../../libs/services/src/index.ts';
import { spreadOf } from '../measure/statistics.ts';
import { within } from '../measure/within.ts';
import { stoppedAtEnd } from '../ending.ts';
import { treeCpuMs } from '../measure/processes.ts';
import { digits } from '../report/table.ts';
import { SHORT_WAITS } from '../workload.ts';
import { setUpProduct, type ProductSetup } from './product-setup.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const RUNS_DEFAULT = 100_000;
const WARM_UP = 200;
const REQUESTS = 1_000;
/** Milliseconds that the API may take to start, to answer, and to stop. */
const START_MS = 60_000;
const ANSWER_MS = 30_000;
const STOP_MS = 10_000;
const API_KEY = 'bench-key-of-the-api';

export async function status(bench: Bench): Promise<ScenarioResult> {
  const runs = bench.options.runs?.[0] ?? RUNS_DEFAULT;
  bench.say(`status: storing ${runs} agents and their runs`);
  const setup = await setUpProduct(bench, runs);
  try {
    const api = await startApi({
      databaseUrl: setup.context.url,
      queueUrl: setup.store.queueUrl,
      dataDir: setup.context.dir,
    });
    try {
      return await askWhileItRuns(bench, setup, api);
    } finally {
      await api.stop();
    }
  } finally {
    await setup.stop();
  }
}

async function askWhileItRuns(bench: Bench, setup: ProductSetup, api: Api): Promise<ScenarioResult> {
  const { runs } = setup.context;
  await setup.store.accept();
  const worker = await setup.startWorker(0, {
    ...SHORT_WAITS,
    SWEEP_INTERVAL_MS: '500',
  });
  worker.start();
  const ingested = worker.report((flow) => flow === 'ingest-results');
  await within(bench.options.timeoutMs, 'The first answer', ingested);
  const path = `/v1/messages/batches/job-${setup.store.batchId}`;
  const get = async (): Promise<number> => {
    const from = performance.now();
    const response = await fetch(`${api.url}${path}`, {
      headers: { authorization: `Bearer ${API_KEY}` },
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const body = (await response.json()) as { status?: string };
    if (!response.ok || body.status === undefined)
      throw new Error(`GET ${path} answered ${response.status}.`);
    if (body.status !== 'running') throw new Error(`The batch is ${body.status} already: take more --runs.`);
    return performance.now() - from;
  };
  for (let index = 0; index < WARM_UP; index++) await get();
  bench.say(`status: ${REQUESTS} requests while the batch runs`);
  const backends = await backendsOfApi(setup);
  const cpu = treeCpuMs(api.pid);
  const before = backendCpuMs(backends);
  const times: number[] = [];
  for (let index = 0; index < REQUESTS; index++) times.push(await get());
  const apiMs = (treeCpuMs(api.pid) - cpu) / REQUESTS;
  const postgresMs = (backendCpuMs(backends) - before) / REQUESTS;
  const wall = spreadOf(times);
  return {
    title: `GET of a batch of ${runs} runs while it runs`,
    table: {
      head: ['requests', 'API CPU ms', 'PostgreSQL CPU ms', 'together', 'answer ms', 'min..max'],
      rows: [
        [
          String(REQUESTS),
          digits(apiMs),
          digits(postgresMs),
          digits(apiMs + postgresMs),
          digits(wall.median),
          `${digits(wall.min)}..${digits(wall.max)}`,
        ],
      ],
    },
    figures: {
      runs,
      requests: REQUESTS,
      api_cpu_ms: apiMs,
      postgres_cpu_ms: postgresMs,
      wall_ms: wall,
    },
    goals: [
      {
        goal: `status of a running batch in under 5 ms of server CPU (${runs} runs)`,
        measured: `${digits(apiMs + postgresMs)} ms`,
        met: apiMs + postgresMs < 5,
      },
    ],
    notes: ["PostgreSQL's share is that of the API's own connections."],
  };
}

interface Api {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

export interface ApiSetup {
  readonly databaseUrl: string;
  readonly queueUrl: string;
  readonly dataDir: string;
}

/** Starts an API and resolves when it is ready. It ends with this process, however that ends. */
export async function startApi(setup: ApiSetup): Promise<Api> {
  const port = await findFreePort();
  const child = fork(new URL('../../apps/api/src/main.ts', import.meta.url), [], {
    env: {
      DATABASE_URL: setup.databaseUrl,
      QUEUE_URL: setup.queueUrl,
      PORT: String(port),
      DATA_DIR: setup.dataDir,
      NIGHTSHIFT_API_KEY: API_KEY,
      LOG_LEVEL: 'silent',
      EXIT_WITH_PARENT: '1',
    },
    stdio: ['pipe', 'ignore', 'inherit', 'ipc'],
  });
  const url = `http://127.0.0.1:${port}`;
  const exit = once(child, 'exit');
  const stop = stoppedAtEnd(async () => {
    child.kill();
    await within(STOP_MS, 'The end of the API', exit).catch(() => child.kill('SIGKILL'));
    await exit;
  });
  const deadline = performance.now() + START_MS;
  const isReady = async (): Promise<boolean> => {
    const signal = AbortSignal.timeout(ANSWER_MS);
    return (await fetch(`${url}/readyz`, { signal }).catch(() => undefined))?.ok === true;
  };
  try {
    while (!(await isReady())) {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error('The API ended before it was ready.');
      if (performance.now() > deadline) throw new Error(`The API was not ready after ${START_MS / 1000} s.`);
      await delay(50);
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, pid: child.pid ?? 0, stop };
}

async function backendsOfApi(setup: ProductSetup): Promise<readonly number[]> {
  const { rows } = await setup.server.admin.query<{ pid: number }>(
    `select pid from pg_stat_activity where application_name = 'nightshift-api'`,
  );
  return rows.map((row) => row.pid);
}

function backendCpuMs(pids: readonly number[]): number {
  const nanoseconds = pids.map((pid) => Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]));
  return nanoseconds.reduce((sum, own) => sum + own, 0) / 1e6;
}
