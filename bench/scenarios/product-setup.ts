/** Prepares a product database for scenarios that look at one part of it. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineContext } from '../engines/engine.ts';
import { removeDirectory } from '../directory.ts';
import { stoppedAtEnd } from '../ending.ts';
import { NO_AUDIT, prepareStore, type ProductStore } from '../engines/product.ts';
import { startWorkerProcess, type WorkerProcess } from '../engines/worker-processes.ts';
import { startServer, type BenchServer } from '../servers.ts';
import type { Bench } from './bench.ts';

export interface ProductSetup {
  readonly server: BenchServer;
  readonly store: ProductStore;
  readonly context: EngineContext;
  /** Starts a worker. `holdOpenMs`: time that the provider keeps a batch in progress. */
  startWorker(holdOpenMs: number, env: Readonly<Record<string, string>>): Promise<WorkerProcess>;
  stop(): Promise<void>;
}

/** Starts a server and a store with `runs` agents. */
export async function setUpProduct(bench: Bench, runs: number): Promise<ProductSetup> {
  const { options } = bench;
  const [name = 'stock'] = options.servers;
  const dir = join(bench.dir, 'product');
  removeDirectory(dir);
  mkdirSync(dir, { recursive: true });
  const server = await startServer(join(bench.dir, 'pg'), name);
  const workers: WorkerProcess[] = [];
  try {
    const context: EngineContext = {
      url: await server.createDatabase('product'),
      redisUrl: null,
      dir,
      runs,
      scenario: 'module',
      workers: 1,
      queue: options.queue,
      workerEnv: options.workerEnv,
    };
    const store = await prepareStore(context);
    return {
      server,
      store,
      context,
      async startWorker(holdOpenMs, env) {
        const worker = await startWorkerProcess({
          name: `bench-${workers.length + 1}`,
          databaseUrl: context.url,
          queueUrl: store.queueUrl,
          dataDir: join(dir, `worker-${workers.length + 1}`),
          options: {
            scenario: context.scenario,
            providerDir: join(dir, 'provider'),
            holdOpenMs,
          },
          env: { ...NO_AUDIT, ...env, ...options.workerEnv },
        });
        workers.push(worker);
        return worker;
      },
      stop: stoppedAtEnd(async () => {
        await Promise.all(workers.map((worker) => worker.kill()));
        await store.close();
        await server.stop();
        removeDirectory(dir);
      }),
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}
