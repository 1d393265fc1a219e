/** Starts and asks worker processes of the product. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { WORKER_NODE_ARGUMENTS } from '../../scripts/stack/settings.ts';
import { within } from '../measure/within.ts';
import type { EngineFigures } from './engine.ts';
import type { FromWorker, ToWorker, WorkerOptions } from './product-worker.ts';

export interface WorkerProcess {
  readonly pid: number;
  start(): void;
  /** Resolves with the first report that `matches`. Rejects when the process ends before. */
  report(matches: (flow: string, detail: Readonly<Record<string, unknown>>) => boolean): Promise<Report>;
  figures(): Promise<EngineFigures>;
  /** Stops the worker in order and resolves when it has ended. */
  stop(): Promise<void>;
  /** Kills the worker and resolves when it has ended. */
  kill(): Promise<void>;
}

export interface Report {
  readonly flow: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface WorkerSetup {
  readonly name: string;
  readonly databaseUrl: string;
  readonly queueUrl: string;
  readonly dataDir: string;
  readonly options: WorkerOptions;
  readonly env: Readonly<Record<string, string>>;
}

/** Milliseconds for loading a worker's modules and starting its tool host. */
const START_MS = 60_000;
const TOOLS_DIR = join(import.meta.dirname, '../tools');

/**
 * Starts a worker process and resolves when its modules and its tool host are ready; `start` lets it work.
 */
export async function startWorkerProcess(setup: WorkerSetup): Promise<WorkerProcess> {
  const child = fork(new URL('product-worker.ts', import.meta.url), [JSON.stringify(setup.options)], {
    execArgv: [...WORKER_NODE_ARGUMENTS],
    env: {
      DATABASE_URL: setup.databaseUrl,
      QUEUE_URL: setup.queueUrl,
      ANTHROPIC_API_KEY: 'bench',
      TOOLS_DIR,
      DATA_DIR: setup.dataDir,
      WORKER_NAME: setup.name,
      ...setup.env,
    },
  });
  const exit = once(child, 'exit') as Promise<[number | null]>;
  // `exit` reports the end; without a listener, a late message would end this process.
  child.on('error', () => undefined);
  try {
    const first = Promise.race([once(child, 'message'), exit]);
    const [message] = (await within(START_MS, 'The start of a worker', first)) as [
      FromWorker | number | null,
    ];
    if (message === null || typeof message === 'number' || message.kind !== 'ready')
      throw new Error('A worker ended before it was ready.');
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  child.on('message', (said: FromWorker) => {
    if (said.kind === 'failure') process.stderr.write(`  ${setup.name}, ${said.flow}: ${said.message}\n`);
  });
  const tell = (kind: ToWorker['kind']): void => void child.send({ kind } satisfies ToWorker);
  const heard = <T>(find: (said: FromWorker) => T | undefined): Promise<T> => hear(child, exit, find);
  return {
    pid: child.pid ?? 0,
    start: () => tell('start'),
    report: (matches) =>
      heard((said) => (said.kind === 'report' && matches(said.flow, said.detail) ? said : undefined)),
    figures() {
      const answer = heard((said) => (said.kind === 'figures' ? said.figures : undefined));
      tell('figures');
      return answer;
    },
    async stop() {
      tell('stop');
      await exit;
    },
    async kill() {
      child.kill('SIGKILL');
      await exit;
    },
  };
}

function hear<T>(
  child: ChildProcess,
  exit: Promise<[number | null]>,
  find: (said: FromWorker) => T | undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const listener = (said: FromWorker): void => {
      const found = find(said);
      if (found === undefined) return;
      child.off('message', listener);
      resolve(found);
    };
    child.on('message', listener);
    void exit.then(([code]) => reject(new Error(`A worker ended with code ${code ?? 'none'}.`)));
  });
}

/** Adds the figures of two processes; delays are the larger of the two. */
export function addFigures(a: EngineFigures, b: EngineFigures): EngineFigures {
  return {
    provider_cpu_ms: a.provider_cpu_ms + b.provider_cpu_ms,
    counts: {
      statements: a.counts.statements + b.counts.statements,
      transactions: a.counts.transactions + b.counts.transactions,
    },
    loop: {
      p99_ms: Math.max(a.loop.p99_ms, b.loop.p99_ms),
      max_ms: Math.max(a.loop.max_ms, b.loop.max_ms),
    },
  };
}
