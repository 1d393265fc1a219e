/** A thousand provider batches that stay open: what watching them costs. */
import { setTimeout as delay } from 'node:timers/promises';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { within } from '../measure/within.ts';
import { treeCpuMs } from '../measure/processes.ts';
import { digits } from '../report/table.ts';
import { CUSTOM_ID_CHARS } from '../workload.ts';
import { setUpProduct } from './product-setup.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const BATCHES = 1_000;
/** Two rounds at the product's default pace of a minute. */
const WATCH_MS = 125_000;
const NEVER_MS = 30 * 24 * 3_600_000;

export async function poll(bench: Bench): Promise<ScenarioResult> {
  const setup = await setUpProduct(bench, 1);
  try {
    const providerDir = join(setup.context.dir, 'provider');
    mkdirSync(providerDir, { recursive: true });
    for (let number = 0; number < BATCHES; number++) {
      writeFileSync(join(providerDir, `msgbatch_open_${number}.1.ids`), 'x'.repeat(CUSTOM_ID_CHARS));
    }
    await setup.store.db
      .insertInto('provider_batch')
      .values(
        Array.from({ length: BATCHES }, (_, number) => ({
          id: crypto.randomUUID(),
          project_id: '00000000-0000-4000-8000-000000000000',
          credential: 'default',
          state: 'submitted' as const,
          nonce: `open${String(number).padStart(6, '0')}`,
          request_count: 1,
          body_bytes: 1_000,
          body_sha256: '0'.repeat(64),
          provider_id: `msgbatch_open_${number}`,
          submit_started_at: new Date(),
          submitted_at: new Date(),
          next_due_at: new Date(),
        })),
      )
      .execute();
    const worker = await setup.startWorker(NEVER_MS, {});
    worker.start();
    bench.say(`poll: watching ${BATCHES} open batches for ${WATCH_MS / 1000} s at the product's own pace`);
    const polled = worker.report((flow) => flow === 'poll-provider-batches');
    await within(bench.options.timeoutMs, 'The first look at the provider', polled);
    const [cpu, postgres] = [treeCpuMs(worker.pid), treeCpuMs(setup.server.pid)];
    const before = await worker.figures();
    await delay(WATCH_MS);
    const minutes = WATCH_MS / 60_000;
    const after = await worker.figures();
    const calls = (after.provider_calls - before.provider_calls) / minutes;
    const providerMs = after.provider_cpu_ms - before.provider_cpu_ms;
    const engineMs = (treeCpuMs(worker.pid) - cpu - providerMs) / minutes;
    const postgresMs = (treeCpuMs(setup.server.pid) - postgres) / minutes;
    return {
      title: `${BATCHES} provider batches that stay open, one worker at its default pace`,
      table: {
        head: ['provider calls/min', 'worker CPU ms/min', 'PostgreSQL CPU ms/min'],
        rows: [[digits(calls), digits(engineMs), digits(postgresMs)]],
      },
      figures: {
        batches: BATCHES,
        calls_per_minute: calls,
        worker_cpu_ms_per_minute: engineMs,
        postgres_cpu_ms_per_minute: postgresMs,
      },
      goals: [],
      notes: [
        "CPU includes the sweep and the queue that a worker has anyway, and leaves out the provider's own work. No audit is made in that time.",
      ],
    };
  } finally {
    await setup.stop();
  }
}
