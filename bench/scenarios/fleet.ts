/** Measures accepting a fleet by a small body, beside accepting as many requests in one transaction. */
import { memoryOf, resetPeak } from '../measure/processes.ts';
import { within } from '../measure/within.ts';
import { digits } from '../report/table.ts';
import type { Bench, ScenarioResult } from './bench.ts';
import { setUpProduct, type ProductSetup } from './product-setup.ts';
import { API_KEY, startApi } from './status.ts';

const RUNS_DEFAULT = 100_000;
const NEVER_MS = 30 * 24 * 3_600_000;
const MB_MAX = 400;
const RATIO_MIN = 0.5;

const BODY = {
  agents: {},
  input: 'Good evening, {{ agent.name }}. Tags: {{ agent.tags | join: ", " }}. What should we know tomorrow?',
  conversation: 'isolated',
  max_steps: 10,
};

export async function fleet(bench: Bench): Promise<ScenarioResult> {
  const runs = bench.options.runs?.[0] ?? RUNS_DEFAULT;
  bench.say(`fleet: storing ${runs} agents`);
  const setup = await setUpProduct(bench, runs);
  try {
    bench.say('fleet: accepting requests');
    const plainFrom = performance.now();
    await setup.store.accept();
    const plainMs = performance.now() - plainFrom;
    const { acceptMs, apiPeakMb, workerPeakMb } = await acceptFleet(bench, setup, runs);
    const ratio = plainMs / acceptMs;
    return {
      title: `A fleet of ${runs} agents from a body of ${JSON.stringify(BODY).length} bytes`,
      table: {
        head: ['accept', 'seconds', 'per second', 'API peak MB', 'worker peak MB'],
        rows: [
          ['requests', digits(plainMs / 1000), digits((runs * 1000) / plainMs), '', ''],
          [
            'fleet',
            digits(acceptMs / 1000),
            digits((runs * 1000) / acceptMs),
            digits(apiPeakMb),
            digits(workerPeakMb),
          ],
        ],
      },
      figures: {
        runs,
        plain_ms: plainMs,
        fleet_ms: acceptMs,
        api_peak_mb: apiPeakMb,
        worker_peak_mb: workerPeakMb,
      },
      goals: [
        {
          goal: `a fleet's agents per second at least ${RATIO_MIN} of the requests per second`,
          measured: digits(ratio),
          met: ratio >= RATIO_MIN,
        },
        {
          goal: `API and worker under ${MB_MAX} MB`,
          measured: `${digits(apiPeakMb)} MB, ${digits(workerPeakMb)} MB`,
          met: apiPeakMb < MB_MAX && workerPeakMb < MB_MAX,
        },
      ],
      notes: [
        'Requests are accepted in one transaction without the API; the fleet through it, from the request to `running`, after a first request has started its thread of large bodies (0.9 s here).',
      ],
    };
  } finally {
    await setup.stop();
  }
}

async function acceptFleet(bench: Bench, setup: ProductSetup, runs: number) {
  const { url, dir } = setup.context;
  const api = await startApi({ databaseUrl: url, queueUrl: setup.store.queueUrl, dataDir: dir });
  try {
    const worker = await setup.startWorker(NEVER_MS, { GATHER_WINDOW_MS: '600000', REQUESTS_MAX: '100000' });
    for (const { pid } of [api, worker]) resetPeak(pid);
    const accepted = worker.report(
      (flow, detail) => flow === 'accept-batch' && detail['outcome'] === 'accepted',
    );
    worker.start();
    // The first body with a template starts the API's thread for such bodies; this one stores nothing.
    await post(api.url, '/v1/batches/estimate', { ...BODY, agents: { limit: 1 } });
    bench.say('fleet: accepting the fleet');
    const from = performance.now();
    await post(api.url, '/v1/batches', BODY);
    const { detail } = await within(bench.options.timeoutMs, 'The accept', accepted);
    const acceptMs = performance.now() - from;
    if (Number(detail['runs']) !== runs) throw new Error(`The fleet has ${String(detail['runs'])} runs.`);
    const [apiPeakMb, workerPeakMb] = [api, worker].map(({ pid }) => memoryOf(pid).peak_kb / 1024);
    return { acceptMs, apiPeakMb: apiPeakMb ?? 0, workerPeakMb: workerPeakMb ?? 0 };
  } finally {
    await api.stop();
  }
}

async function post(url: string, path: string, body: object): Promise<void> {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`POST ${path} answered ${response.status}: ${text}`);
}
