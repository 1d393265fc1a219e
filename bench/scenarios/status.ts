/** Measures reading a batch while its runs are carried out. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startProcess } from '../../scripts/stack/processes.ts';
import { API_NODE_ARGUMENTS } from '../../scripts/stack/settings.ts';
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
/** Milliseconds for the API's start, an answer, and the API's stop. */
const START_MS = 60_000;
const ANSWER_MS = 30_000;
const STOP_MS = 10_000;
export const API_KEY = 'bench-key-of-the-api';

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
  const batchPath = `/v1/messages/batches/job-${setup.store.batchId}`;
  const get = async (path: string): Promise<number> => {
    const from = performance.now();
    const response = await fetch(`${api.url}${path}`, {
      headers: { authorization: `Bearer ${API_KEY}` },
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const body = (await response.json()) as { status?: string; phase?: string };
    const phase = body.status ?? body.phase;
    if (!response.ok || phase === undefined) throw new Error(`GET ${path} answered ${response.status}.`);
    if (phase === 'completed' || phase === 'done')
      throw new Error('The batch has ended already: take more --runs.');
    return performance.now() - from;
  };
  const measure = async (path: string): Promise<Asked> => {
    for (let index = 0; index < WARM_UP; index++) await get(path);
    bench.say(`status: ${REQUESTS} requests of ${path} while the batch runs`);
    const backends = await backendsOfApi(setup);
    const cpu = treeCpuMs(api.pid);
    const before = backendCpuMs(backends);
    const times: number[] = [];
    for (let index = 0; index < REQUESTS; index++) times.push(await get(path));
    const api_cpu_ms = (treeCpuMs(api.pid) - cpu) / REQUESTS;
    const postgres_cpu_ms = (backendCpuMs(backends) - before) / REQUESTS;
    return { api_cpu_ms, postgres_cpu_ms, wall_ms: spreadOf(times) };
  };
  const batch = await measure(batchPath);
  const progress = await measure(`${batchPath}/progress`);
  const cpuOf = ({ api_cpu_ms, postgres_cpu_ms }: Asked): number => api_cpu_ms + postgres_cpu_ms;
  const rowOf = (path: string, asked: Asked): string[] => {
    const { api_cpu_ms, postgres_cpu_ms, wall_ms } = asked;
    const cpu = [api_cpu_ms, postgres_cpu_ms, cpuOf(asked), wall_ms.median].map(digits);
    return [path, String(REQUESTS), ...cpu, `${digits(wall_ms.min)}..${digits(wall_ms.max)}`];
  };
  const goalOf = (what: string, asked: Asked): ScenarioResult['goals'][number] => ({
    goal: `${what} of a running batch in under 5 ms of server CPU (${runs} runs)`,
    measured: `${digits(cpuOf(asked))} ms`,
    met: cpuOf(asked) < 5,
  });
  return {
    title: `GET of a batch of ${runs} runs, and of its progress, while it runs`,
    table: {
      head: ['of', 'requests', 'API CPU ms', 'PostgreSQL CPU ms', 'together', 'answer ms', 'min..max'],
      rows: [rowOf('batch', batch), rowOf('progress', progress)],
    },
    figures: { runs, requests: REQUESTS, ...batch, progress },
    goals: [goalOf('status', batch), goalOf('progress', progress)],
    notes: ["PostgreSQL's CPU covers the API's connections only."],
  };
}

/** CPU and time of a request. */
interface Asked {
  readonly api_cpu_ms: number;
  readonly postgres_cpu_ms: number;
  readonly wall_ms: ReturnType<typeof spreadOf>;
}

interface Api {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** Starts an API on a free port and resolves when it listens. It ends with this process, even after SIGKILL. */
export async function startApi(setup: {
  readonly databaseUrl: string;
  readonly queueUrl: string;
  readonly dataDir: string;
}): Promise<Api> {
  const api = startProcess(
    'api',
    'apps/api/src/main.ts',
    {
      DATABASE_URL: setup.databaseUrl,
      QUEUE_URL: setup.queueUrl,
      PORT: '0',
      DATA_DIR: setup.dataDir,
      NIGHTSHIFT_API_KEY: API_KEY,
      LOG_LEVEL: 'silent',
      EXIT_WITH_PARENT: '1',
    },
    join(setup.dataDir, 'api.log'),
    API_NODE_ARGUMENTS,
  );
  const stop = stoppedAtEnd(() => api.stop(STOP_MS));
  try {
    const listens = api.firstLine((line) => /Nightshift API at (http:[^\s,]+)/.exec(line)?.[1]);
    return { url: await within(START_MS, 'The start of the API', listens), pid: api.pid, stop };
  } catch (error) {
    await stop();
    throw error;
  }
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
