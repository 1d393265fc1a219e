import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { keepApiKey } from '../../apps/api/src/api-key.ts';
import {
  connect,
  declareAnswerer,
  inTransaction,
  migrateToLatest,
  type Database,
} from '../../libs/db/src/index.ts';
import { keepSecretsKey } from '../../libs/intake/src/index.ts';
import { checkQueue } from '../../libs/queue/src/index.ts';
import {
  checkRedis,
  createPool,
  findFreePort,
  MIGRATION_STATEMENT_MS,
  providePostgres,
} from '../../libs/services/src/index.ts';
import type pg from 'pg';
import { refuseOthers } from './guest.ts';
import { freePort } from './port.ts';
import { keepPreviousLogs } from './previous-logs.ts';
import { startProcess, type StackProcess } from './processes.ts';
import { toolLeftOut } from './tool-left-out.ts';
import {
  API_NODE_ARGUMENTS,
  connectionSettings,
  connectionsOf,
  hostToAsk,
  proxySettings,
  WORKER_NODE_ARGUMENTS,
} from './settings.ts';

/** Minimum of connections of an embedded server: workers may be added. */
const EMBEDDED_CONNECTIONS_MIN = 200;

/** Number of ports that the first API tries. */
const API_STARTS_MAX = 5;

/** Credential of the workers. */
const CREDENTIAL = 'default';

/** Options of a stack. */
export interface StackOptions {
  /** Directory for everything written at run time. */
  readonly dataDir: string;
  readonly workers: number;
  /** Wanted port of the API. 0, or a used port that is not fixed: any free port. */
  readonly port: number;
  /** Whether a used port is an error. */
  readonly portIsFixed?: boolean;
  readonly toolsDir: string;
  /** Called with a line for the terminal, once for each tool module that the workers skip or miss. */
  readonly onToolLeftOut?: (line: string) => void;
  /** Environment of the API, beside the stack's. */
  readonly apiEnv?: Readonly<Record<string, string>>;
  /** Environment of the workers, beside the stack's. */
  readonly workerEnv?: Readonly<Record<string, string>>;
  /** Node arguments of workers. Default: {@link WORKER_NODE_ARGUMENTS}. */
  readonly workerNodeArguments?: readonly string[] | undefined;
  /** Latency of the simulated provider, in the simulator's syntax. */
  readonly simulatorLatency?: string;
  /** Key of the real provider. Without it, the simulator answers. */
  readonly anthropicApiKey?: string | undefined;
  readonly databaseUrl?: string | undefined;
  readonly queueUrl?: string | undefined;
  /** The command that refuses a `databaseUrl` with other users' work. */
  readonly guest?: 'demo';
  /** Checks the migrated database before any process works on it. Its error ends the start. */
  readonly look?: (pool: pg.Pool) => Promise<void>;
}

/** A running service: database, provider, API and workers. */
export interface Stack {
  readonly apiUrl: string;
  readonly apiKey: string;
  readonly databaseUrl: string;
  readonly queueUrl: string;
  /** Null when the real provider answers. */
  readonly simulatorControlUrl: string | null;
  readonly pool: pg.Pool;
  readonly db: Database;
  readonly workers: readonly StackProcess[];
  /** The simulator, if there is one, the API and the first workers. */
  readonly processes: readonly StackProcess[];
  /** Resolves with the reason when the embedded database has ended; undefined for an external database. */
  readonly databaseEnded: Promise<string> | undefined;
  /** Tells whether a process of {@link processes} answers its liveness check before `signal` aborts. */
  answers(name: string, signal: AbortSignal): Promise<boolean>;
  /** Starts an ended process of {@link processes} again with its first settings. */
  startAgain(name: string): Promise<StackProcess>;
  addWorker(name: string): Promise<StackProcess>;
  stop(): Promise<void>;
}

/** Starts everything in order and resolves when all of it is ready. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { dataDir } = options;
  mkdirSync(dataDir, { recursive: true });
  const logs = join(dataDir, 'logs');
  const stops: (() => Promise<unknown>)[] = [];
  /** The API and the workers, which are stopped at the same time. */
  const atWork: StackProcess[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(atWork.splice(0).map((each) => each.stop()));
    for (const end of stops.splice(0).reverse()) await end().catch(() => undefined);
  };
  try {
    const connections = connectionsOf(options.workers, options.workerEnv, options.queueUrl);
    const postgres = await providePostgres({
      databaseUrl: options.databaseUrl,
      dataDir: join(dataDir, 'pg'),
      durable: true,
      settings: { max_connections: Math.max(connections, EMBEDDED_CONNECTIONS_MIN) },
    });
    stops.push(() => postgres.stop());
    keepPreviousLogs(logs);
    const queueUrl = options.queueUrl ?? postgres.url;
    const pool = createPool({ url: postgres.url, max: 4, applicationName: 'nightshift-stack' });
    stops.push(() => pool.end());
    const db = connect(pool);
    if (options.guest !== undefined && options.databaseUrl !== undefined) await refuseOthers(pool);
    if (postgres.source === 'external') await checkConnections(pool, connections, options.workers);
    await checkQueue(queueUrl, { checkRedis });
    await migrate(postgres.url);
    // Before the workers start: an error reaches the terminal, and not only their logs.
    const isSimulated = options.anthropicApiKey === undefined;
    await inTransaction(db, (trx) => declareAnswerer(trx, CREDENTIAL, isSimulated));
    await options.look?.(pool);

    const starts = new Map<string, () => Promise<StackProcess>>();
    /** URLs of the liveness checks, by process. */
    const livez = new Map<string, string>();
    const provider = await startProvider(options, logs, stops);
    if (provider.simulator !== null) {
      starts.set('simulator', provider.startAgain);
      // Without a key it answers with a refusal, which counts as alive.
      livez.set('simulator', `${provider.env['ANTHROPIC_BASE_URL'] ?? ''}/v1/models`);
    }
    const apiKey = (process.env.NIGHTSHIFT_API_KEY ?? '') || (await keepApiKey(dataDir)).key;
    const secretsKey = (process.env['SECRETS_KEY'] ?? '') || (await keepSecretsKey(dataDir)).key;
    const host = options.apiEnv?.['HOST'];
    const portIsFixed = options.portIsFixed === true && options.port !== 0;
    let port = await freePort(options.port, portIsFixed, host);
    const apiUrlNow = (): string => `http://${hostToAsk(host)}:${port}`;
    const startApi = async (): Promise<StackProcess> => {
      const api = startProcess(
        'api',
        'apps/api/src/main.ts',
        {
          ...connectionSettings(process.env),
          DATABASE_URL: postgres.url,
          QUEUE_URL: queueUrl,
          PORT: String(port),
          DATA_DIR: dataDir,
          EXIT_WITH_PARENT: '1',
          NIGHTSHIFT_API_KEY: apiKey,
          SECRETS_KEY: secretsKey,
          // The API reports the provider; it needs no real key for that.
          ...(options.anthropicApiKey === undefined ? {} : { ANTHROPIC_API_KEY: 'set' }),
          ...options.apiEnv,
        },
        join(logs, 'api.log'),
        API_NODE_ARGUMENTS,
      );
      atWork.push(api);
      try {
        await untilHealthy(apiUrlNow(), api);
        livez.set('api', `${apiUrlNow()}/livez`);
      } catch (error) {
        await api.kill();
        throw error;
      }
      return api;
    };
    const startApiFirst = async (): Promise<StackProcess> => {
      for (let tries = 1; ; tries++) {
        try {
          return await startApi();
        } catch (error) {
          // Another program took the port after the check.
          const isTaken = (error as Error).message.includes('EADDRINUSE');
          if (!isTaken || portIsFixed || tries === API_STARTS_MAX) throw error;
          port = await findFreePort();
        }
      }
    };
    starts.set('api', startApi);
    const workers: StackProcess[] = [];
    const leftOut = new Set<string>();
    const listenForTools = (line: string): void => {
      const told = toolLeftOut(line);
      if (told === undefined || leftOut.has(told)) return;
      leftOut.add(told);
      options.onToolLeftOut?.(told);
    };
    const addWorker = async (name: string): Promise<StackProcess> => {
      const worker = startProcess(
        name,
        'apps/worker/src/main.ts',
        {
          ...connectionSettings(process.env),
          DATABASE_URL: postgres.url,
          QUEUE_URL: queueUrl,
          DATA_DIR: join(dataDir, name),
          TOOLS_DIR: options.toolsDir,
          SECRETS_KEY: secretsKey,
          EXIT_WITH_PARENT: '1',
          HEALTH_PORT: '0',
          WORKER_NAME: name,
          ...provider.env,
          ...options.workerEnv,
        },
        join(logs, `${name}.log`),
        options.workerNodeArguments ?? WORKER_NODE_ARGUMENTS,
      );
      workers.push(worker);
      atWork.push(worker);
      worker.onLine(listenForTools);
      livez.set(name, await worker.firstLine(livezOf));
      return worker;
    };
    const names = Array.from({ length: options.workers }, (_, index) => `worker-${index + 1}`);
    for (const name of names) starts.set(name, () => addWorker(name));
    const started = await Promise.all([startApiFirst(), ...names.map(addWorker)]);
    return {
      apiUrl: apiUrlNow(),
      apiKey,
      databaseUrl: postgres.url,
      queueUrl,
      simulatorControlUrl: provider.controlUrl,
      pool,
      db,
      workers,
      databaseEnded: postgres.ended,
      processes: [...(provider.simulator === null ? [] : [provider.simulator]), ...started],
      answers: (name, signal) =>
        fetch(livez.get(name) ?? '', { signal }).then(
          async (answer) => {
            await answer.body?.cancel();
            return true;
          },
          () => false,
        ),
      startAgain: (name) => {
        const start = starts.get(name);
        if (start === undefined) throw new Error(`No process of the start is called ${name}.`);
        return start();
      },
      addWorker,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Returns the liveness URL from the log line of a worker that is at work. */
function livezOf(line: string): string | undefined {
  if (!line.includes('worker is at work')) return undefined;
  return (JSON.parse(line) as { readonly livez: string }).livez;
}

/** Throws an error with the settings to change when an external server allows too few connections. */
async function checkConnections(pool: pg.Pool, needed: number, workers: number): Promise<void> {
  const { rows } = await pool.query<{ allowed: number }>(
    `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as allowed`,
  );
  const allowed = rows[0]?.allowed ?? 0;
  if (allowed >= needed) return;
  throw new Error(
    `WORKERS=${workers} may take ${needed} connections, and the PostgreSQL of DATABASE_URL allows ${allowed}. ` +
      'Raise its max_connections, or set WORKERS or DATABASE_POOL_MAX (connections of a worker) lower.',
  );
}

async function migrate(url: string): Promise<void> {
  const pool = createPool({
    url,
    max: 2,
    applicationName: 'nightshift-migrate',
    statementTimeoutMs: MIGRATION_STATEMENT_MS,
  });
  try {
    await migrateToLatest(connect(pool));
  } finally {
    await pool.end();
  }
}

interface Provider {
  readonly env: Readonly<Record<string, string>>;
  readonly controlUrl: string | null;
  readonly simulator: StackProcess | null;
  /** Starts the simulator again, on the same ports. */
  readonly startAgain: () => Promise<StackProcess>;
}

async function startProvider(
  options: StackOptions,
  logs: string,
  stops: (() => Promise<unknown>)[],
): Promise<Provider> {
  if (options.anthropicApiKey !== undefined) {
    return {
      env: { ...proxySettings(process.env), ANTHROPIC_API_KEY: options.anthropicApiKey },
      controlUrl: null,
      simulator: null,
      startAgain: () => Promise.reject(new Error('There is no simulator.')),
    };
  }
  const start = async (apiPort: string, controlPort: string) => {
    const simulator = startProcess(
      'simulator',
      'apps/simulator/src/main.ts',
      {
        SIMULATOR_PORT: apiPort,
        SIMULATOR_CONTROL_PORT: controlPort,
        SIMULATOR_LATENCY_MS: options.simulatorLatency ?? 'uniform:500-2000',
        SIMULATOR_DATA_DIR: join(options.dataDir, 'simulator'),
        SIMULATOR_EXIT_WITH_PARENT: '1',
      },
      join(logs, 'simulator.log'),
    );
    stops.push(() => simulator.stop());
    const urls = await simulator.firstLine((line) => {
      if (!line.startsWith('{"listening"')) return undefined;
      return (JSON.parse(line) as { listening: { api_url: string; control_url: string } }).listening;
    });
    return { simulator, urls };
  };
  const { simulator, urls } = await start('0', '0');
  return {
    env: { ANTHROPIC_API_KEY: 'simulated', ANTHROPIC_BASE_URL: urls.api_url, SIMULATOR_URL: urls.api_url },
    controlUrl: urls.control_url,
    simulator,
    startAgain: async () => {
      const again = await start(new URL(urls.api_url).port, new URL(urls.control_url).port);
      return again.simulator;
    },
  };
}

/** Milliseconds for the API to be ready. */
const READY_MS = 60_000;

/** Resolves when `api` itself is ready: before it listens, another program may answer on its port. */
async function untilHealthy(apiUrl: string, api: StackProcess): Promise<void> {
  const settled = new AbortController();
  const signal = AbortSignal.any([settled.signal, AbortSignal.timeout(READY_MS)]);
  const answers = async (): Promise<void> => {
    await api.firstLine((line) => (line.includes('Nightshift API at ') ? true : undefined));
    while (!signal.aborted) {
      const answer = await fetch(`${apiUrl}/readyz`, { signal }).catch(() => undefined);
      if (answer?.ok === true) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const gone = api.failure.then((failure) => {
    throw failure;
  });
  const late = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => {
      reject(new Error(`The API was not ready within ${READY_MS / 1000} s.`));
    });
  });
  try {
    await Promise.race([answers(), gone, late]);
  } finally {
    settled.abort();
  }
}
