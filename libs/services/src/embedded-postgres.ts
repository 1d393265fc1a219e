import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { DirectoryInUseError, directoryOwner, holdDirectory } from './directory-lock.ts';
import { findFreePort } from './free-port.ts';
import { locatePostgresBinaries, type RunAs } from './postgres-binaries.ts';
import { clusterUser, endOrphan, initializeCluster, readLines, spellingFor } from './postgres-cluster.ts';
import { startWatchdog } from './watchdog.ts';

export interface EmbeddedPostgresOptions {
  /**
   * Everything of the server lies here and nowhere else: `cluster/` (its data directory), `password` and
   * `postgres.log`. Made when missing; remove it, while the server is stopped, to start afresh.
   */
  readonly dataDir: string;
  /** False trades every guarantee about crashes for speed: tests only. */
  readonly durable: boolean;
  /** More server settings, for instance `{ max_connections: 300 }`; they win over ours. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

export interface EmbeddedPostgres {
  /** Connection URL of the superuser and the database `postgres`, for the driver `pg`; holds the password. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Resolves when the server ends, by `stop` or by itself, with how: an exit code or a signal, and where its log is. */
  readonly ended: Promise<string>;
  /** Ends the server as soon as other connections are gone, at the latest after half a second. May be called twice. */
  readonly stop: () => Promise<void>;
}

const START_DEADLINE_MS = 120_000;
const FAST_SHUTDOWN_DEADLINE_MS = 15_000;
const FOREIGN_CONNECTIONS_GRACE_MS = 500;

/**
 * Starts a private PostgreSQL 18 on a free port of 127.0.0.1 and resolves once it accepts connections.
 *
 * - The data and the password of an earlier start are kept.
 * - A server that outlived its killed owner is stopped first; one whose owner lives makes this reject.
 * - The server ends when this process ends, however it ends; it does not keep this process alive.
 * - As root it runs as `nobody`, also when that user may not enter the directories above `dataDir`.
 *
 * Neither exit hooks nor signal handlers are installed: call `stop()` at the end of the owner's own shutdown.
 * @throws with what to do next: directory in use, data of another major version, no binaries, no permission.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const home = resolve(options.dataDir);
  const binDir = locatePostgresBinaries();
  const release = openHome(home);
  try {
    const cluster = join(home, 'cluster');
    await endOrphan(cluster);
    await forgetEndedServer(home);
    if (!existsSync(cluster)) await initializeCluster(home, binDir, options.durable);
    const server = await launch(home, binDir, options);
    return { ...server, stop: onceOnly(() => server.stop().finally(release)) };
  } catch (error) {
    release();
    throw error;
  }
}

/** Milliseconds that a server which another process has begun to start is waited for. */
const JOIN_DEADLINE_MS = 30_000;

/**
 * The URL of the server that another living process runs on `dataDir`, once it accepts connections; null when nobody
 * holds the directory. The server stays the other's: it ends when its owner does.
 * @throws {DirectoryInUseError} when whoever holds the directory has no server there in time.
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

/** The URL of the server that accepts connections to the data in `home`; null when none does. */
async function answeringServer(home: string): Promise<string | null> {
  const [, , , port, , , , status] = readLines(join(home, 'cluster', 'postmaster.pid'));
  const [password] = readLines(join(home, 'password'));
  if (port === undefined || status?.trim() !== 'ready' || password === undefined) return null;
  const url = serverUrl(password, Number(port));
  return (await accepts(url)) ? url : null;
}

/**
 * PostgreSQL would take any living process with the number in its pid file for a server, and refuse to start. The file
 * is removed, unless the server answers all the same: in another container its process cannot be seen from here.
 */
async function forgetEndedServer(home: string): Promise<void> {
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
 * Says that there is no TLS, and no negotiation that presumes it: variables (PGSSLMODE, PGSSLNEGOTIATION) that are meant
 * for another server count where a URL says nothing. A libpq before 17 refuses `sslnegotiation`; nothing here has one.
 */
function serverUrl(password: string, port: number): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres?sslmode=disable&sslnegotiation=postgres`;
}

/** Makes the directory if need be and takes it for this process; the result gives it back. */
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
      `${join(home, 'password')} is missing, and without it nobody gets into the data beside it. ` +
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
      const told = ended.then((how) => `${how}, log in ${join(home, 'postgres.log')}`);
      return { url, port, pid: child.pid, ended: told, stop };
    }
    dismissWatchdog();
    const log = tail(join(home, 'postgres.log'));
    // Somebody took the port since we looked, or the last processes of a killed server are still ending.
    const passing = /could not bind|could not create any TCP|pre-existing shared memory block/.test(log);
    if (!passing || performance.now() > deadline)
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
  // A file and not a pipe: the server must be able to speak after its owner was killed.
  const log = openSync(logFile, 'w', 0o600);
  try {
    const child = spawn(join(binDir, 'postgres'), ['-D', spellingFor(user, cluster), ...settings], {
      ...user,
      cwd: cluster,
      env: { LC_ALL: 'C', TZ: 'UTC' },
      stdio: ['ignore', 'ignore', log],
      // A session of its own: Ctrl-C in a terminal is for the owner, which stops the server when it has drained.
      detached: true,
    });
    child.unref();
    return child;
  } finally {
    closeSync(log);
  }
}

/** How the process ends; never rejects. Asked for as soon as it is there: an end that is past is told to nobody. */
function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
    child.on('error', ({ message }) => resolve(message));
  });
}

/** Resolves with undefined when the server accepts connections, with the reason when it never will. */
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
  await untilOthersHaveLeft(url);
  child.ref();
  child.kill('SIGINT');
  const timeout = AbortSignal.timeout(FAST_SHUTDOWN_DEADLINE_MS);
  timeout.addEventListener('abort', () => child.kill('SIGQUIT'), { once: true });
  await ended;
}

/**
 * A client whose `end()` has resolved may still have its socket open; a server that stops in that moment sends it an
 * error that nobody listens for. So the connections are given a moment to go. Never rejects: the server is to end either way.
 */
async function untilOthersHaveLeft(url: string): Promise<void> {
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
    // No connection to be had: all the more reason to stop the server.
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
