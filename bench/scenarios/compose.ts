/** Measures building and sending one request body from ready runs: time, memory, event loop delay. */
import { join } from 'node:path';
import { within } from '../measure/within.ts';
import { memoryOf, resetPeak, treeCpuMs } from '../measure/processes.ts';
import { digits } from '../report/table.ts';
import { setUpProduct } from './product-setup.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const RUNS_DEFAULT = 100_000;
const NEVER_MS = 30 * 24 * 3_600_000;

export async function compose(bench: Bench): Promise<ScenarioResult> {
  const runs = bench.options.runs?.[0] ?? RUNS_DEFAULT;
  bench.say(`compose: storing ${runs} agents and their runs`);
  const setup = await setUpProduct(bench, runs);
  try {
    await setup.store.accept();
    const worker = await setup.startWorker(NEVER_MS, {
      REQUESTS_MAX: String(runs),
      BODY_BYTES_MAX: '240000000',
      DATA_DIR: join(setup.context.dir, 'compose'),
    });
    const idle = memoryOf(worker.pid).rss_kb;
    resetPeak(worker.pid);
    const [cpu, postgres] = [treeCpuMs(worker.pid), treeCpuMs(setup.server.pid)];
    const start = performance.now();
    const sealed = worker
      .report((flow) => flow === 'compose-provider-batch')
      .then(() => performance.now() - start);
    const sent = worker.report(
      (flow, detail) => flow === 'submit-provider-batch' && detail['outcome'] === 'submitted',
    );
    worker.start();
    // Awaited together: a worker that ends rejects both.
    const [sealMs, { detail }] = await within(
      bench.options.timeoutMs,
      'The body',
      Promise.all([sealed, sent]),
    );
    const wallMs = performance.now() - start;
    const requests = Number(detail['requests'] ?? 0);
    const bytes = Number(detail['bytes'] ?? 0);
    const peakMb = memoryOf(worker.pid).peak_kb / 1024;
    const { loop, provider_cpu_ms } = await worker.figures();
    const workerMs = treeCpuMs(worker.pid) - cpu - provider_cpu_ms;
    const postgresMs = treeCpuMs(setup.server.pid) - postgres;
    return {
      title: `${runs} ready runs to one request body`,
      table: {
        head: [
          'requests',
          'MB',
          'sealed s',
          'sent s',
          'worker CPU us/request',
          'PostgreSQL CPU us/request',
          'peak RSS MB',
          'over idle',
          'loop max ms',
        ],
        rows: [
          [
            String(requests),
            digits(bytes / 1e6),
            digits(sealMs / 1000),
            digits(wallMs / 1000),
            digits((workerMs * 1000) / requests),
            digits((postgresMs * 1000) / requests),
            digits(peakMb),
            digits(peakMb - idle / 1024),
            digits(loop.max_ms),
          ],
        ],
      },
      figures: {
        runs,
        requests,
        bytes,
        seal_ms: sealMs,
        wall_ms: wallMs,
        worker_cpu_ms: workerMs,
        postgres_cpu_ms: postgresMs,
        peak_rss_mb: peakMb,
        loop,
      },
      goals: [
        {
          goal: `building a body of ${requests} requests under 500 MB of RSS`,
          measured: `${digits(peakMb)} MB`,
          met: peakMb < 500,
        },
      ],
      notes: [
        'First steps: one message per request. The body goes to a file and is streamed to the provider in the process, whose own work is left out.',
      ],
    };
  } finally {
    await setup.stop();
  }
}
