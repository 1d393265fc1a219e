import { delimiter, resolve } from 'node:path';
import { VARIABLES as API_VARIABLES } from '../../apps/api/src/config.ts';
import { VARIABLES as WORKER_VARIABLES } from '../../apps/worker/src/config.ts';
import { parseQueueUrl } from '../../libs/queue/src/index.ts';
import { safeUrl } from '../../libs/services/src/index.ts';

/** A process's environment, as the operator gave it. */
type Environment = Readonly<Record<string, string | undefined>>;

/** What the stack tells its processes itself: where its own parts are, and who they are. */
const SET_BY_THE_STACK: ReadonlySet<string> = new Set([
  'DATABASE_URL',
  'QUEUE_URL',
  'TOOLS_DIR',
  'DATA_DIR',
  'WORKER_NAME',
  'EXIT_WITH_PARENT',
  'HEALTH_PORT',
  'HEALTH_HOST',
  'ANTHROPIC_API_KEY',
  'SIMULATOR_URL',
  'PORT',
  'NIGHTSHIFT_API_KEY',
]);

/** The host, as a URL has it, at which this machine reaches an API that listens on `HOST`. */
export function hostToAsk(listensOn: string | undefined): string {
  if (listensOn === undefined || listensOn === '0.0.0.0' || listensOn === '::') return '127.0.0.1';
  return listensOn.includes(':') ? `[${listensOn}]` : listensOn;
}

/** What each process holds at most, beside the pool of a worker: {@link connectionsOf}. */
const OF_THE_START = 4 + 2;
const OF_THE_API = 20 + 10 + 1;
const OF_AN_AUDIT = 1;
const OF_A_BELL = 1;
/** A second one for a moment, as it looks whether it hears. */
const OF_A_LISTENER = 2;
/** For people and `npm run audit`. */
const SPARE = 8;

/** Connections of a worker where DATABASE_POOL_MAX is not set. */
export const WORKER_POOL_DEFAULT = 8;

/** Connections to PostgreSQL that so many workers, the API and the start open at most, and a few to spare. */
export function connectionsOf(
  workers: number,
  env: Environment | undefined,
  queueUrl: string | undefined,
): number {
  const pool = Number(env?.['DATABASE_POOL_MAX']) || WORKER_POOL_DEFAULT;
  const isPostgres = queueUrl === undefined || parseQueueUrl(queueUrl).backend === 'postgres';
  const [bell, listener] = isPostgres ? [OF_A_BELL, OF_A_LISTENER] : [0, 0];
  return SPARE + OF_THE_START + OF_THE_API + bell + workers * (pool + OF_AN_AUDIT + bell + listener);
}

/**
 * Keeps the heap of a worker close to what it needs without a ceiling that it could hit. Half of what a chunk of answers
 * allocates outlives any young generation, so a large one copies more than it spares; what costs is marking the old one, which
 * may therefore grow to three and a half times what lives in it. Measured on 30,000 runs of three steps (`npm run bench`, in
 * turns): with 32 MB of young generation and growth by 120 %, the worker took 90 us a step and 330 MB, with these 84 us and
 * 368 MB. Growth by 300 % saves 3 us more and needs 400 MB.
 *
 * And keeps the optimising compiler from writing small functions into each other: what it spends on that, a worker earns back
 * in no night. With these bounds the compiler's threads take a fifth less for 10,000 runs, and a step 3 % less at any size.
 */
export const WORKER_NODE_ARGUMENTS: readonly string[] = [
  '--min-semi-space-size=16',
  '--max-semi-space-size=16',
  '--heap-growing-percent=250',
  '--max-inlined-bytecode-size=100',
  '--max-inlined-bytecode-size-cumulative=100',
];

/**
 * The operator's settings for workers, to be handed on: every variable that a worker knows and the stack does not set
 * itself. `ANTHROPIC_BASE_URL` counts with a key only, since without one the simulator answers.
 */
export function workerSettings(env: Environment): Record<string, string> {
  const hasKey = (env['ANTHROPIC_API_KEY'] ?? '') !== '';
  return settingsOf(
    env,
    WORKER_VARIABLES.filter((name) => name !== 'ANTHROPIC_BASE_URL' || hasKey),
  );
}

/** The operator's settings for the API, to be handed on: every variable that it knows and the stack does not set itself. */
export function apiSettings(env: Environment): Record<string, string> {
  return settingsOf(env, API_VARIABLES);
}

/**
 * Names the provider of a key for people: by the host of ANTHROPIC_BASE_URL alone, since the rest of a URL may hold a
 * secret.
 */
export function providerWithKey(env: Environment): string {
  const url = env['ANTHROPIC_BASE_URL'] ?? '';
  if (url === '') return 'the Anthropic API';
  const [, host = ''] = /:\/\/(.+)$/.exec(safeUrl(url)) ?? [];
  return host === ''
    ? 'the provider that ANTHROPIC_BASE_URL names'
    : `the provider at ${host} (ANTHROPIC_BASE_URL)`;
}

/** Of this process's environment, what a driver needs to connect as this process does: user, PG*, certificates. */
export function connectionSettings(env: Environment): Record<string, string> {
  return matching(env, /^(USER|USERNAME|PG[A-Z]+|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR))$/);
}

/** The way to the provider through a proxy. For who asks a provider only: the simulator is on this machine. */
export function proxySettings(env: Environment): Record<string, string> {
  return matching(env, /^(HTTPS?_PROXY|NO_PROXY|https?_proxy|no_proxy|NODE_USE_ENV_PROXY)$/);
}

function matching(env: Environment, names: RegExp): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value !== undefined && names.test(name) ? [[name, value]] : [],
    ),
  );
}

/** Paths of a variable that names several, absolute: programs of the stack work in another directory than who starts it. */
export function absolutePaths(paths: string | undefined): string | undefined {
  return paths
    ?.split(delimiter)
    .filter((path) => path !== '')
    .map((path) => resolve(path))
    .join(delimiter);
}

function settingsOf(env: Environment, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = env[name] ?? '';
      if (value === '' || SET_BY_THE_STACK.has(name)) return [];
      return [[name, name === 'PRICES_FILE' ? resolve(value) : value]];
    }),
  );
}
