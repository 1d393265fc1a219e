/** Runs a worker of the product with the bench's provider in its process. Speaks IPC with its parent. */
import { createRequire } from 'node:module';
import type pgModule from 'pg';
import { startToolHost } from '../../apps/tool-host/src/index.ts';
import { readConfig } from '../../apps/worker/src/config.ts';
import { startNetHost } from '../../apps/net-host/src/index.ts';
import { createLazyHost } from '../../apps/worker/src/tools/lazy-host.ts';
import { createModuleRunner } from '../../apps/worker/src/tools/module/module-runner.ts';
import { startWorker, type Worker } from '../../apps/worker/src/worker.ts';
import { createPool } from '../../libs/services/src/index.ts';
import { watchEventLoop } from '../measure/event-loop.ts';
import { countStatements } from '../measure/statements.ts';
import { openProvider } from '../provider.ts';
import type { Scenario } from '../workload.ts';
import type { EngineFigures } from './engine.ts';

export interface WorkerOptions {
  readonly scenario: Scenario;
  /** Directory of the provider's batches. */
  readonly providerDir: string;
  /** Milliseconds that a batch stays in progress at the provider. */
  readonly holdOpenMs: number;
}

export interface ToWorker {
  readonly kind: 'start' | 'figures' | 'stop';
}
export type FromWorker =
  | { readonly kind: 'ready' }
  | { readonly kind: 'report'; readonly flow: string; readonly detail: Readonly<Record<string, unknown>> }
  | { readonly kind: 'failure'; readonly flow: string; readonly message: string }
  | { readonly kind: 'figures'; readonly figures: EngineFigures };

const options = JSON.parse(process.argv[2] ?? '{}') as WorkerOptions;
// The product's own copy of pg: the other engines load another.
const pg = createRequire(new URL('../../libs/services/package.json', import.meta.url))(
  'pg',
) as typeof pgModule;
const counts = { statements: 0, transactions: 0 };
countStatements(pg, counts);

// eslint-disable-next-line no-restricted-syntax -- what a worker's main does: its environment, whole, to the function that parses it
const config = readConfig(process.env);
const tell = (message: FromWorker): void => void process.send?.(message);
const provider = openProvider({
  dir: options.providerDir,
  scenario: options.scenario,
  holdOpenMs: options.holdOpenMs,
});
const pool = createPool({
  url: config.database_url,
  max: config.database_pool_max,
  applicationName: config.owner,
});
const tools = await startToolHost({
  toolsDirs: [...config.tools_dirs],
  ...(config.tool_threads > 0 ? { threads: config.tool_threads } : {}),
  threadMemoryMb: config.tool_thread_memory_mb,
});
const netHost = createLazyHost(() => startNetHost({}));
let worker: Worker | undefined;
let loop = watchEventLoop();

async function start(): Promise<void> {
  counts.statements = counts.transactions = 0;
  loop = watchEventLoop();
  worker = await startWorker(config, {
    pool,
    provider,
    runners: { module: createModuleRunner(tools, netHost) },
    listTools: () => tools.listTools(),
    log: {
      report: ({ flow, ...detail }) => tell({ kind: 'report', flow, detail }),
      failure: (flow, error) => tell({ kind: 'failure', flow, message: String(error) }),
      queueError: (error) => tell({ kind: 'failure', flow: 'queue', message: String(error) }),
    },
  });
}

async function stop(): Promise<void> {
  await worker?.stop();
  await Promise.all([tools.close(), netHost.close()]);
  await pool.end();
  process.exit(0);
}

process.on('message', ({ kind }: ToWorker) => {
  if (kind === 'start') void start();
  else if (kind === 'stop') void stop();
  else {
    const figures: EngineFigures = {
      provider_cpu_ms: provider.cpuMs(),
      counts: { ...counts },
      loop: loop(),
    };
    tell({ kind: 'figures', figures });
  }
});
process.on('disconnect', () => process.exit(0));
tell({ kind: 'ready' });
