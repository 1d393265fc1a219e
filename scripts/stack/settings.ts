import { delimiter, resolve } from 'node:path';
import { environment as apiEnvironment, VARIABLES as API_VARIABLES } from '../../apps/api/src/config.ts';
import { VARIABLES as WORKER_VARIABLES } from '../../apps/worker/src/config.ts';
import { SECRETS_KEY_RULE, SECRETS_KEYS_RULE } from '../../libs/intake/src/index.ts';
import { parseQueueUrl } from '../../libs/queue/src/index.ts';
import { safeUrl } from '../../libs/services/src/index.ts';

/** A process's environment, as the operator gave it. */
type Environment = Readonly<Record<string, string | undefined>>;

/** Variables that the stack sets for its processes. */
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
  'SECRETS_KEY',
]);

/** Returns the host, in URL form, at which this machine reaches an API that listens on `HOST`. */
export function hostToAsk(listensOn: string | undefined): string {
  if (listensOn === undefined || listensOn === '0.0.0.0' || listensOn === '::') return '127.0.0.1';
  return listensOn.includes(':') ? `[${listensOn}]` : listensOn;
}

/** Maximum connections of each process, beside a worker's pool; see {@link connectionsOf}. */
const OF_THE_START = 4 + 2;
const OF_THE_API = 20 + 10 + 1;
const OF_AN_AUDIT = 1;
const OF_A_BELL = 1;
/** The second is short: it checks whether the listener hears. */
const OF_A_LISTENER = 2;
/** For people and `npm run audit`. */
const SPARE = 8;

/** Connections of a worker without DATABASE_POOL_MAX. */
export const WORKER_POOL_DEFAULT = 8;

/**
 * Returns the maximum of connections to PostgreSQL that the workers, the API and the start open, plus a
 * reserve.
 */
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
 * Keeps a worker's heap close to its need, without a hard limit. Half of a chunk's allocations outlive any
 * young generation, so a large one copies more than it saves. Marking the old generation is the main cost, so
 * it may grow to 3.5 times its live size. Measured with 30,000 runs of three steps (`npm run bench`, in
 * turns): 32 MB of young generation and growth by 120 % took 90 us per step and 330 MB; these flags took 84
 * us and 368 MB. Growth by 300 % saves 3 us more and needs 400 MB.
 *
 * The last two flags limit inlining by the optimising compiler: its threads take a fifth less for 10,000
 * runs, and a step 3 % less at any size.
 */
export const WORKER_NODE_ARGUMENTS: readonly string[] = [
  '--min-semi-space-size=16',
  '--max-semi-space-size=16',
  '--heap-growing-percent=250',
  '--max-inlined-bytecode-size=100',
  '--max-inlined-bytecode-size-cumulative=100',
];

/**
 * Keeps the API's heap close to its need while it streams: rows of a page live long enough to be promoted, and are garbage
 * soon after. Results of 200,000 runs took 450 MB with Node's defaults, and take 230 MB with these flags, at the same CPU.
 */
export const API_NODE_ARGUMENTS: readonly string[] = [
  '--max-semi-space-size=8',
  '--heap-growing-percent=100',
];

/**
 * Returns the operator's variables for workers that the stack does not set. `ANTHROPIC_BASE_URL` counts only
 * with a key, since the simulator answers without one.
 */
export function workerSettings(env: Environment): Record<string, string> {
  const hasKey = (env['ANTHROPIC_API_KEY'] ?? '') !== '';
  return settingsOf(
    env,
    WORKER_VARIABLES.filter((name) => name !== 'ANTHROPIC_BASE_URL' || hasKey),
  );
}

/** The rules of keys. */
const KEY_RULES = {
  NIGHTSHIFT_API_KEY: 'must have at least 16 characters, all visible ASCII: no blanks, no line breaks',
  SECRETS_KEY: SECRETS_KEY_RULE,
  SECRETS_KEYS_OLD: SECRETS_KEYS_RULE,
} as const;

/**
 * Checks keys by the API's rules, before anything starts. An empty one counts as absent.
 * Throws an error without the key.
 */
export function checkKeys(env: Environment): void {
  for (const name of Object.keys(KEY_RULES) as (keyof typeof KEY_RULES)[])
    if (!apiEnvironment.shape[name].safeParse(env[name] || undefined).success)
      throw new Error(`${name} ${KEY_RULES[name]}.`);
}

/** Returns the operator's variables for the API that the stack does not set. */
export function apiSettings(env: Environment): Record<string, string> {
  return settingsOf(env, API_VARIABLES);
}

/** Names the provider by the host of ANTHROPIC_BASE_URL alone: the rest of a URL may hold a secret. */
export function providerWithKey(env: Environment): string {
  const url = env['ANTHROPIC_BASE_URL'] ?? '';
  if (url === '') return 'the Anthropic API';
  const [, host = ''] = /:\/\/(.+)$/.exec(safeUrl(url)) ?? [];
  return host === ''
    ? 'the provider that ANTHROPIC_BASE_URL names'
    : `the provider at ${host} (ANTHROPIC_BASE_URL)`;
}

/** Returns the variables that a database driver needs: user, PG*, certificates. */
export function connectionSettings(env: Environment): Record<string, string> {
  return matching(env, /^(USER|USERNAME|PG[A-Z]+|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR))$/);
}

/** Returns the proxy variables, for the real provider alone: the simulator runs on this machine. */
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

/** Makes the paths of a list absolute: the stack's programs have another working directory. */
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
