import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { findFreePort } from './free-port.ts';
import { safeReason, safeUrl } from './safe-url.ts';
import { startWatchdog } from './watchdog.ts';

/** Below the queue's timeout of a check, because the client's own error says more than a timeout. Unit: ms. */
const ANSWER_TIMEOUT_MS = 2_500;
const START_DEADLINE_MS = 15_000;
const SHUTDOWN_DEADLINE_MS = 10_000;

export interface RedisReport {
  /** Version of Redis, or the version that a compatible server reports. */
  readonly version: string;
  readonly maxmemoryPolicy: string;
  /** Reason why the server must not carry signals, with the next step; null when it may. */
  readonly objection: string | null;
}

/**
 * Returns the reason why the Redis at `url` must not carry signals; null when it may.
 * Throws: like {@link inspectRedis}.
 */
export async function checkRedis(url: string): Promise<string | null> {
  const { objection } = await inspectRedis(url);
  return objection;
}

/**
 * Inspects the Redis at `url`. It objects to versions before 6.2, to a missing database of the URL, and to an evicting
 * `maxmemory-policy`, which silently drops signals and the queue's own records.
 * Throws: when Redis cannot be reached or gives no version.
 */
export async function inspectRedis(url: string): Promise<RedisReport> {
  const place = safeUrl(url);
  const { redis, explain } = connectOnce(url);
  try {
    await redis.connect();
    const version = /redis_version:(\S+)/.exec(await redis.info('server'))?.[1] ?? '0';
    const maxmemoryPolicy = await readMaxmemoryPolicy(redis);
    const missing = await selectDatabase(redis);
    const objection =
      missing === null
        ? objectionTo(version, maxmemoryPolicy, place)
        : `The Redis of QUEUE_URL, ${place}, cannot use the database at the end of this URL: ${missing}. ` +
          'Name an existing database, or none for database 0.';
    return { version, maxmemoryPolicy, objection };
  } catch (error) {
    throw unusable(safeReason(explain(error as Error), url), place);
  } finally {
    redis.disconnect();
  }
}

function objectionTo(version: string, maxmemoryPolicy: string, place: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < 6 || (major === 6 && minor < 2))
    return `The Redis of QUEUE_URL, ${place}, is version ${version}; use 6.2 or newer.`;
  if (maxmemoryPolicy === 'noeviction') return null;
  return (
    `The Redis of QUEUE_URL, ${place}, has maxmemory-policy ${maxmemoryPolicy}: when its memory is full it would ` +
    'throw away queued work. Set it with `CONFIG SET maxmemory-policy noeviction` (and in redis.conf), or use ' +
    'another Redis than the one that serves as a cache.'
  );
}

/** Connects without retries. `explain` returns the cause of an error that says only "Connection is closed". */
function connectOnce(url: string): { redis: Redis; explain: (error: Error) => Error } {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: ANSWER_TIMEOUT_MS,
    commandTimeout: ANSWER_TIMEOUT_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  let cause: Error | undefined;
  redis.on('error', (error: Error) => (cause ??= error));
  return {
    redis,
    explain: (error) => (error.message.includes('Connection is closed') ? (cause ?? error) : error),
  };
}

/** Selects the database of the URL and returns the error if it is missing; the client alone would silently use another. */
async function selectDatabase(redis: Redis): Promise<string | null> {
  const { db = 0 } = redis.options;
  if (db === 0) return null;
  try {
    await redis.select(db);
    return null;
  } catch (error) {
    const { message } = error as Error;
    if (!message.startsWith('ERR ')) throw error;
    return message;
  }
}

/** Reads the policy from CONFIG, or from INFO where a managed service forbids CONFIG. */
async function readMaxmemoryPolicy(redis: Redis): Promise<string> {
  try {
    const [, policy] = (await redis.config('GET', 'maxmemory-policy')) as [string?, string?];
    if (policy !== undefined) return policy;
  } catch {
    // Forbidden or renamed.
  }
  return /maxmemory_policy:(\S+)/.exec(await redis.info('memory'))?.[1] ?? 'noeviction';
}

function unusable(reason: string, place: string): Error {
  // The message only: the client's errors hold the failed command, for example AUTH with its password.
  const hint = place.startsWith('rediss:')
    ? 'A server without TLS has a URL that begins with redis://. '
    : '';
  return new Error(
    `Cannot use the Redis of QUEUE_URL, ${place}: ${reason.replace(/\.$/, '')}. ${hint}` +
      'Start that server, correct the URL (redis://user:password@host:6379), or set QUEUE_URL to a PostgreSQL to queue there.',
  );
}

/** Finds a Redis or Valkey server on PATH; null without one. */
export function findRedisServer(): string | null {
  if (process.platform === 'win32') return null;
  for (const name of ['redis-server', 'valkey-server']) {
    const found = spawnSync('/bin/sh', ['-c', `command -v ${name}`], { encoding: 'utf8' });
    if (found.status === 0) return found.stdout.trim();
  }
  return null;
}

export interface RedisServerOptions {
  /** Directory of the server's files and log, created if missing. */
  readonly dir: string;
  /** Keeps data in an append-only file, synced every second. Default: false. */
  readonly appendOnly?: boolean;
  /** Port of an earlier server to replace. Default: a free port. */
  readonly port?: number;
  /** Further directives, such as `{ 'maxmemory-policy': 'allkeys-lru' }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Stops the server gracefully. Idempotent, also after a kill. */
  readonly stop: () => Promise<void>;
}

/**
 * Starts a private Redis on 127.0.0.1 and resolves once it answers. It ends with this process.
 * Throws: when no server is installed (see {@link findRedisServer}), or it does not start.
 */
export async function startRedisServer(options: RedisServerOptions): Promise<RedisServer> {
  const executable = findRedisServer();
  if (executable === null)
    throw new Error('No redis-server on PATH: install it (`apt-get install redis-server`).');
  const dir = resolve(options.dir);
  mkdirSync(dir, { recursive: true });
  const deadline = performance.now() + START_DEADLINE_MS;
  for (;;) {
    const port = options.port ?? (await findFreePort());
    const child = spawnRedis(executable, dir, port, options);
    const dismissWatchdog = startWatchdog(child.pid);
    const password = options.settings?.requirepass;
    const url = `redis://${password === undefined ? '' : `:${password}@`}127.0.0.1:${port}`;
    if (await untilItAnswers(child, url, deadline)) {
      const pid = child.pid ?? 0;
      let stopping: Promise<void> | undefined;
      const stop = (): Promise<void> => (stopping ??= endServer(child).finally(dismissWatchdog));
      return { url, port, pid, stop };
    }
    await endServer(child).finally(dismissWatchdog);
    const log = readFileSync(join(dir, 'redis.log'), 'utf8').trim();
    if (options.port !== undefined || !log.includes('Address already in use') || performance.now() > deadline)
      throw new Error(`Redis did not start in ${dir}; its log says:\n${log}`);
  }
}

function spawnRedis(
  executable: string,
  dir: string,
  port: number,
  options: RedisServerOptions,
): ChildProcess {
  const settings = {
    bind: '127.0.0.1',
    port,
    dir,
    save: '',
    appendonly: options.appendOnly === true ? 'yes' : 'no',
    appendfsync: 'everysec',
    daemonize: 'no',
    ...options.settings,
  };
  const log = openSync(join(dir, 'redis.log'), 'w');
  try {
    const child = spawn(
      executable,
      Object.entries(settings).flatMap(([name, value]) => [`--${name}`, `${value}`]),
      { cwd: dir, stdio: ['ignore', log, log], detached: true },
    );
    child.unref();
    child.on('error', () => undefined);
    return child;
  } finally {
    closeSync(log);
  }
}

async function untilItAnswers(child: ChildProcess, url: string, deadline: number): Promise<boolean> {
  while (!hasEnded(child) && child.pid !== undefined && performance.now() < deadline) {
    const { redis } = connectOnce(url);
    try {
      await redis.connect();
      // Another server may have taken the port first.
      if (new RegExp(`process_id:${child.pid}\\s`).test(await redis.info('server'))) return true;
    } catch {
      // Not yet.
    } finally {
      redis.disconnect();
    }
    await delay(15);
  }
  return false;
}

async function endServer(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || hasEnded(child)) return;
  const exited = once(child, 'exit');
  child.ref();
  child.kill('SIGTERM');
  const timeout = AbortSignal.timeout(SHUTDOWN_DEADLINE_MS);
  timeout.addEventListener('abort', () => child.kill('SIGKILL'), { once: true });
  await exited;
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
