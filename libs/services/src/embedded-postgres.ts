import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { DirectoryInUseError, directoryOwner, holdDirectory } from './directory-lock.ts';
import { findFreePort } from './free-port.ts';
import { locatePostgresBinaries, type RunAs } from './postgres-binaries.ts';
import { clusterUser, endOrphan, initializeCluster, readLines, pathFor } from './postgres-cluster.ts';
import { startWatchdog } from './watchdog.ts';

export interface EmbeddedPostgresOptions {
  /**
   * Directory of all files of the server: `cluster/` (its data), `password` and `postgres.log`. Created if missing.
   * Remove it while the server is stopped to start with an empty database.
   */
  readonly dataDir: string;
  /** False gives up all crash safety for speed; only for tests. */
  readonly durable: boolean;
  /** Further server settings, such as `{ max_connections: 300 }`, which override the defaults. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

export interface EmbeddedPostgres {
  /** URL of the superuser and the database `postgres`, with the password, for the driver `pg`. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Resolves at the end of the server, also after `stop`, with its exit code or signal and the path of its log. */
  readonly ended: Promise<string>;
  /** Stops the server once other connections are closed, at the latest after half a second. Idempotent. */
  readonly stop: () => Promise<void>;
}

const START_DEADLINE_MS = 120_000;
const FAST_SHUTDOWN_DEADLINE_MS = 15_000;
const FOREIGN_CONNECTIONS_GRACE_MS = 500;

/**
 * Starts a private PostgreSQL 18 on a free port of 127.0.0.1 and resolves once it accepts connections.
 *
 * - The data and the password of an earlier start are kept.
 * - A server that outlived its killed owner is stopped first.
 * - The server ends with this process, also after SIGKILL, and does not keep this process alive.
 * - For root it runs as an unprivileged user, who need not have access to the directories above `dataDir`.
 *
 * It installs neither exit hooks nor signal handlers: the owner calls `stop()` at the end of its own shutdown.
 * Throws: an error with the next step, for a directory in use, data of another major version, missing binaries or permissions.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const home = resolve(options.dataDir);
  const binDir = locatePostgresBinaries();
  const release = openHome(home);
  try {
    const cluster = join(home, 'cluster');
    await endOrphan(cluster);
    await removeStalePidFile(home);
    if (!existsSync(cluster)) await initializeCluster(home, binDir, options.durable);
    const server = await launch(home, binDir, options);
    return { ...server, stop: onceOnly(() => server.stop().finally(release)) };
  } catch (error) {
    release();
    throw error;
  }
}

/** Maximum wait for a server that another process is starting. Unit: ms. */
const JOIN_DEADLINE_MS = 30_000;

/**
 * Waits for the server that another process runs on `dataDir` and returns its URL; null when no process holds the directory.
 * The server ends with its owner.
 * Throws: {@link DirectoryInUseError} when the directory is held but no server answers in time.
 */
export async function joinEmbeddedPostgres(dataDir: string): Promise<string | null> {
  const home = resolve(dataDir);
  const deadline = performance.now() + JOIN_DEADLINE_MS;
  for (;;) {
    const owner = directoryOwner(home);
    if (owner === null) return null;
    const url = await answeringServer(home);
    if (url !== null) return url;
    if (performance.now() > deadline) throw new DirectoryInUseError(home, owner);
    await delay(50);
  }
}

/** Returns the URL of the server that answers for the data in `home`, or null. */
async function answeringServer(home: string): Promise<string | null> {
  const [, , , port, , , , status] = readLines(join(home, 'cluster', 'postmaster.pid'));
  const [password] = readLines(join(home, 'password'));
  if (port === undefined || status?.trim() !== 'ready' || password === undefined) return null;
  const url = serverUrl(password, Number(port));
  return (await accepts(url)) ? url : null;
}

/**
 * Removes the pid file of an ended server. PostgreSQL refuses to start while any process has the pid in it.
 * Throws: when a server still answers, whose process may be invisible in another container.
 */
async function removeStalePidFile(home: string): Promise<void> {
  const pidFile = join(home, 'cluster', 'postmaster.pid');
  const url = await answeringServer(home);
  if (url !== null)
    throw new Error(
      `A PostgreSQL that uses ${home} answers on port ${new URL(url).port}, but its process cannot be seen from here: it ` +
        'may run in another container. Stop it there, or choose another directory. If this directory is a copy of one in ' +
        `use, remove ${pidFile} from it.`,
    );
  rmSync(pidFile, { force: true });
}

async function accepts(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Builds a URL that disables TLS explicitly, since PGSSLMODE and PGSSLNEGOTIATION may be set for another server.
 * A libpq before 17 refuses `sslnegotiation`, but no client here uses one.
 */
function serverUrl(password: string, port: number): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres?sslmode=disable&sslnegotiation=postgres`;
}

/** Creates the directory if it is missing and locks it; the returned function unlocks it. */
function openHome(home: string): () => void {
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    return holdDirectory(home);
  } catch (error) {
    if (error instanceof DirectoryInUseError) throw error;
    throw new Error(
      `PostgreSQL cannot keep its data in ${home}: ${(error as Error).message}. ` +
        'Choose a directory that can be written, or set DATABASE_URL.',
      { cause: error },
    );
  }
}

async function launch(
  home: string,
  binDir: string,
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  const cluster = join(home, 'cluster');
  const user = clusterUser(cluster);
  const [password] = readLines(join(home, 'password'));
  if (password === undefined)
    throw new Error(
      `${join(home, 'password')} is missing, and without it the data beside it is inaccessible. ` +
        `Put it back, or move ${home} away to start with an empty database.`,
    );
  const deadline = performance.now() + START_DEADLINE_MS;
  for (;;) {
    const port = await findFreePort();
    const child = spawnServer(home, binDir, user, serverSettings(options, port));
    const ended = endOf(child);
    const dismissWatchdog = startWatchdog(child.pid, join(home, 'owner.lock'));
    const failure = await untilReady(child, ended, cluster, deadline);
    if (failure === undefined && child.pid !== undefined) {
      const url = serverUrl(password, port);
      const stop = (): Promise<void> => stopServer(child, ended, url).finally(dismissWatchdog);
      const endedWithLog = ended.then((how) => `${how}, log in ${join(home, 'postgres.log')}`);
      return { url, port, pid: child.pid, ended: endedWithLog, stop };
    }
    dismissWatchdog();
    const log = tail(join(home, 'postgres.log'));
    // Another process took the port meanwhile, or the last processes of a killed server are still ending.
    const isTransient = /could not bind|could not create any TCP|pre-existing shared memory block/.test(log);
    if (!isTransient || performance.now() > deadline)
      throw new Error(
        `PostgreSQL did not start: ${failure ?? 'no process'}. Its log, ${join(home, 'postgres.log')}, ends with:\n` +
          `${log}\nSet DATABASE_URL to use another server, or move ${home} away to start with an empty one.`,
      );
    await delay(200);
  }
}

function serverSettings(options: EmbeddedPostgresOptions, port: number): string[] {
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: 200,
    log_min_messages: 'log',
    log_checkpoints: 'off',
    ...(options.durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
    ...options.settings,
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

function spawnServer(
  home: string,
  binDir: string,
  user: RunAs | undefined,
  settings: string[],
): ChildProcess {
  const cluster = join(home, 'cluster');
  const logFile = join(home, 'postgres.log');
  if (existsSync(logFile)) renameSync(logFile, join(home, 'postgres.previous.log'));
  // A file, not a pipe: the server must be able to log after its owner was killed.
  const log = openSync(logFile, 'w', 0o600);
  try {
    const child = spawn(join(binDir, 'postgres'), ['-D', pathFor(user, cluster), ...settings], {
      ...user,
      cwd: cluster,
      env: { LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['ignore', 'ignore', log],
      // In its own session: Ctrl-C in a terminal must reach only the owner, which stops the server after its drain.
      detached: true,
    });
    child.unref();
    return child;
  } finally {
    closeSync(log);
  }
}

/** Resolves with a process's exit code or signal; never rejects. Must be called right after `spawn`, before the exit event. */
function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
    child.on('error', ({ message }) => resolve(message));
  });
}

/** Waits until the server accepts connections; resolves with the reason if it fails to start, else undefined. */
async function untilReady(
  child: ChildProcess,
  ended: Promise<string>,
  cluster: string,
  deadline: number,
): Promise<string | undefined> {
  let failure: string | undefined;
  void ended.then((how) => (failure = `it ended: ${how}`));
  for (;;) {
    if (failure !== undefined) return failure;
    const [pid, , , , , , , status] = readLines(join(cluster, 'postmaster.pid'));
    if (Number(pid) === child.pid && status?.trim() === 'ready') return undefined;
    if (performance.now() > deadline) {
      child.kill('SIGQUIT');
      return `it was not ready after ${START_DEADLINE_MS / 1000} s`;
    }
    await delay(15);
  }
}

async function stopServer(child: ChildProcess, ended: Promise<string>, url: string): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  await waitForOtherConnections(url);
  child.ref();
  child.kill('SIGINT');
  const timeout = AbortSignal.timeout(FAST_SHUTDOWN_DEADLINE_MS);
  timeout.addEventListener('abort', () => child.kill('SIGQUIT'), { once: true });
  await ended;
}

/**
 * Waits briefly until other connections are closed. Never rejects, so that the server stops in any case.
 * After `end()` of a client its socket may still be open, and a stopping server would send it an unhandled error.
 */
async function waitForOtherConnections(url: string): Promise<void> {
  let client: pg.Client | undefined;
  try {
    client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000, query_timeout: 2_000 });
    client.on('error', () => undefined);
    await client.connect();
    const deadline = performance.now() + FOREIGN_CONNECTIONS_GRACE_MS;
    for (;;) {
      const { rowCount } = await client.query(
        `select from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() limit 1`,
      );
      if (rowCount === 0 || performance.now() > deadline) break;
      await delay(20);
    }
  } catch {
    // No connection is possible: the server is stopped at once.
  } finally {
    await client?.end().catch(() => undefined);
  }
}

function tail(path: string): string {
  return readLines(path).slice(-15).join('\n').trim();
}

function onceOnly(act: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => (running ??= act());
}
