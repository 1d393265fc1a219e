import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { afterAll, afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { EmbeddedPostgres, EmbeddedPostgresOptions } from '../src/embedded-postgres.ts';
import { providePostgres, startEmbeddedPostgres } from '../src/index.ts';
import { processIdentity } from '../src/process-identity.ts';

const cleanups: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Data directory shared by the tests that need no empty one: initdb takes most of a start's time. */
const usedDirectory = mkdtempSync(join(tmpdir(), 'nightshift-services-'));
afterAll(() => rmSync(usedDirectory, { recursive: true, force: true }));

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-services-'));
  cleanups.push(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function start(
  dataDir: string,
  more: Partial<EmbeddedPostgresOptions> = {},
): Promise<EmbeddedPostgres> {
  const postgres = await startEmbeddedPostgres({ dataDir, durable: false, ...more });
  cleanups.push(() => postgres.stop());
  return postgres;
}

async function ask(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

const OWNER = new URL('./fixtures/own-postgres.ts', import.meta.url).pathname;

interface Owner {
  readonly child: ChildProcess;
  readonly url: string;
  readonly pid: number;
}

/** Starts a server owned by another process, which the test can kill. */
function startOwner(dataDir: string, ...args: string[]): Promise<Owner> {
  return startOwnerBy([process.execPath], dataDir, ...args);
}

async function startOwnerBy([program = '', ...before]: readonly string[], ...args: string[]): Promise<Owner> {
  const child = spawn(program, [...before, OWNER, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  cleanups.push(() => void child.kill('SIGKILL'));
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { child, ...(JSON.parse(line) as { url: string; pid: number }) };
}

async function untilEnded(pid: number): Promise<void> {
  await vi.waitFor(() => expect(processIdentity(pid)).toBeUndefined(), { timeout: 120_000, interval: 20 });
}

describe('an embedded PostgreSQL', () => {
  test('is a PostgreSQL 18 in UTF-8 with checksums, only on 127.0.0.1, with a password', async () => {
    const { url, port } = await start(usedDirectory);
    const [settings] = await ask(
      url,
      `select current_setting('server_version_num')::int / 10000 as version,
              current_setting('server_encoding') as encoding, current_setting('data_checksums') as checksums,
              current_setting('listen_addresses') as addresses, current_setting('unix_socket_directories') as sockets,
              current_setting('port')::int as port, current_setting('password_encryption') as passwords`,
    );
    expect(settings).toEqual({
      version: 18,
      encoding: 'UTF8',
      checksums: 'on',
      addresses: '127.0.0.1',
      sockets: '',
      port,
      passwords: 'scram-sha-256',
    });
    const wrong = new URL(url);
    wrong.password = 'postgres';
    await expect(ask(wrong.href, 'select 1')).rejects.toMatchObject({ code: '28P01' });
  });

  test('starts and stops whatever PGSSLMODE and PGSSLNEGOTIATION are', async () => {
    vi.stubEnv('PGSSLMODE', 'require');
    vi.stubEnv('PGSSLNEGOTIATION', 'direct');
    onTestFinished(() => void vi.unstubAllEnvs());
    const { url, pid, stop } = await start(usedDirectory);
    expect(await ask(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    await stop();
    expect(processIdentity(pid)).toBeUndefined();
  });

  test('keeps its data and its password over a restart', async () => {
    const dataDir = join(newDirectory(), 'made', 'on', 'demand');
    const first = await start(dataDir);
    await ask(first.url, 'create table kept as select 42 as answer');
    await first.stop();
    await untilEnded(first.pid);

    const second = await start(dataDir);
    expect(await ask(second.url, 'select answer from kept')).toEqual([{ answer: 42 }]);
    expect(new URL(second.url).password).toBe(new URL(first.url).password);
  });

  test('stores its password in a file that only its user can read', async () => {
    const dataDir = usedDirectory;
    const { url } = await start(dataDir);
    const file = join(dataDir, 'password');
    expect(readFileSync(file, 'utf8')).toBe(new URL(url).password);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(dataDir, 'postgres.log'), 'utf8')).not.toContain(new URL(url).password);
  });

  test('syncs to disk only when durable', async () => {
    const sql = `select name, setting from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit')
                 order by name`;
    const valuesWhen = async (durable: boolean) => {
      const { url, stop } = await start(usedDirectory, { durable });
      const rows = await ask(url, sql);
      await stop();
      return rows.map(({ setting }) => setting);
    };
    expect(await valuesWhen(true)).toEqual(['on', 'on', 'on']);
    expect(await valuesWhen(false)).toEqual(['off', 'off', 'off']);
  });

  test('accepts settings', async () => {
    const { url } = await start(usedDirectory, { settings: { max_connections: 17 } });
    expect(await ask(url, 'show max_connections')).toEqual([{ max_connections: '17' }]);
  });

  test('stops once after several calls and unlocks its directory', async () => {
    const dataDir = usedDirectory;
    const postgres = await start(dataDir);
    await Promise.all([postgres.stop(), postgres.stop()]);
    await postgres.stop();
    expect(processIdentity(postgres.pid)).toBeUndefined();
    expect(existsSync(join(dataDir, 'owner.lock'))).toBe(false);
  });

  test('resolves `ended` with the reason, after stop or a crash', async () => {
    const stopped = await start(usedDirectory);
    await stopped.stop();
    expect(await stopped.ended).toMatch(/^exit code 0, log in .*postgres\.log$/);
    const struck = await start(usedDirectory);
    process.kill(struck.pid, 'SIGKILL');
    expect(await struck.ended).toMatch(/^SIGKILL, log in /);
  });

  test('waits for closing connections before it stops', async () => {
    const { url, stop } = await start(usedDirectory);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const errors: Error[] = [];
    client.on('error', (error) => errors.push(error));
    const ended = client.query('select pg_sleep(0.02)').then(() => client.end());
    await stop();
    await ended;
    expect(errors).toEqual([]);
  });

  test('stops although a client stays connected', async () => {
    const { url, pid, stop } = await start(usedDirectory);
    const client = new pg.Client({ connectionString: url });
    const cut = new Promise((settle) => client.on('error', settle));
    await client.connect();
    await stop();
    await cut;
    expect(processIdentity(pid)).toBeUndefined();
  });

  test('stops although the driver cannot create a client to count connections', async () => {
    const { pid, stop } = await start(usedDirectory);
    const making = vi.spyOn(pg, 'Client').mockImplementation(function () {
      throw new Error('no client');
    });
    onTestFinished(() => making.mockRestore());
    await stop();
    expect(making).toHaveBeenCalled();
    expect(processIdentity(pid)).toBeUndefined();
  });

  test('refuses a second owner while the first lives', async () => {
    const dataDir = usedDirectory;
    await start(dataDir);
    await expect(start(dataDir)).rejects.toThrow(
      `is in use by process ${process.pid}. Stop that process first, or set DATA_DIR to another directory.`,
    );
  });

  test('can be joined by processes that allow it, and ends with its owner', async () => {
    const dataDir = newDirectory();
    const wish = { dataDir, durable: false, mayJoin: true };
    const owner = await startOwner(dataDir);
    const joined = await providePostgres(wish);
    expect(joined.url).toBe(owner.url);
    await joined.stop();
    expect(await ask(owner.url, 'select 1 as one')).toEqual([{ one: 1 }]);

    owner.child.kill('SIGKILL');
    await untilEnded(owner.pid);
    const own = await providePostgres(wish);
    cleanups.push(() => own.stop());
    expect(own.url).not.toBe(owner.url);
  });

  test('is not started on a directory that another container uses', async ({ skip }) => {
    const newNamespace = ['--pid', '--ipc', '--fork', '--mount-proc', '--kill-child'];
    if (spawnSync('unshare', [...newNamespace, 'true']).status !== 0)
      skip('no pid namespace can be made here');
    const dataDir = usedDirectory;
    const container = await startOwnerBy(['unshare', ...newNamespace, process.execPath], dataDir);
    const pidFile = join(dataDir, 'cluster', 'postmaster.pid');
    const before = readFileSync(pidFile, 'utf8');
    await expect(start(dataDir)).rejects.toThrow(/in use from another container or machine/);
    expect(readFileSync(pidFile, 'utf8')).toBe(before);
    expect(await ask(container.url, 'select 1 as one')).toEqual([{ one: 1 }]);

    container.child.kill('SIGKILL');
    const { url } = await start(dataDir);
    expect(await ask(url, 'select 1 as one')).toEqual([{ one: 1 }]);
  });

  test('is left alone with its pid file while it answers, although its process is invisible', async () => {
    const dataDir = usedDirectory;
    const { url } = await start(dataDir);
    const pidFile = join(dataDir, 'cluster', 'postmaster.pid');
    const before = readFileSync(pidFile, 'utf8');
    const unseen = before.replace(/^\d+/, '4194305');
    writeFileSync(pidFile, unseen);
    rmSync(join(dataDir, 'owner.lock'));
    try {
      await expect(start(dataDir)).rejects.toThrow(
        /answers on port \d+.*another container.*postmaster\.pid/s,
      );
      expect(readFileSync(pidFile, 'utf8')).toBe(unseen);
      expect(await ask(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    } finally {
      writeFileSync(pidFile, before);
    }
  });

  test('is started by exactly one of several simultaneous starters', async () => {
    const dataDir = usedDirectory;
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => start(dataDir)));
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
  });

  test('runs for root below a directory that only root may enter', async ({ skip }) => {
    if (process.getuid?.() !== 0) skip('not root');
    const closed = newDirectory();
    expect(statSync(closed).mode & 0o777).toBe(0o700);
    const dataDir = join(closed, 'home', 'pg');
    mkdirSync(join(closed, 'home'), { mode: 0o700 });
    const first = await start(dataDir, { durable: true });
    await ask(first.url, `create table t as select generate_series(1, 1000) as n; checkpoint`);
    await ask(first.url, 'create database cloned template postgres');
    await first.stop();
    const second = await start(dataDir, { durable: true });
    const clone = new URL(second.url);
    clone.pathname = '/cloned';
    expect(await ask(clone.href, 'select count(*)::int as n from t')).toEqual([{ n: 1000 }]);
    expect(statSync(join(dataDir, 'cluster')).uid).toBe(65_534);
  });
});

describe('when its owner is killed', () => {
  test('the server ends by itself, and its directory is free', async () => {
    const dataDir = usedDirectory;
    const owner = await startOwner(dataDir);
    await ask(owner.url, 'create table survivor as select 1 as one');
    owner.child.kill('SIGKILL');
    await untilEnded(owner.pid);
    const { url } = await start(dataDir);
    expect(await ask(url, 'select one from survivor')).toEqual([{ one: 1 }]);
  });

  test('a starting server ends too', async () => {
    const pidFile = join(usedDirectory, 'cluster', 'postmaster.pid');
    const owner = spawn(process.execPath, [OWNER, usedDirectory, 'die-while-it-starts'], {
      stdio: 'inherit',
    });
    expect(await once(owner, 'exit')).toEqual([null, 'SIGKILL']);
    await vi.waitFor(() => expect(existsSync(pidFile)).toBe(false), { timeout: 120_000, interval: 20 });
  });

  test('a surviving server is ended by the next start', async () => {
    const dataDir = usedDirectory;
    const owner = await startOwner(dataDir, 'without-watchdog');
    owner.child.kill('SIGKILL');
    await once(owner.child, 'exit');
    expect(processIdentity(owner.pid)).toBeDefined();
    const { pid, url } = await start(dataDir);
    expect(processIdentity(owner.pid)).toBeUndefined();
    expect(pid).not.toBe(owner.pid);
    expect(await ask(url, 'select 1 as one')).toEqual([{ one: 1 }]);
  });

  test('a stale pid file with the pid of another process affects neither that process nor the start', async () => {
    const dataDir = usedDirectory;
    const first = await start(dataDir);
    await first.stop();
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    cleanups.push(() => void stranger.kill('SIGKILL'));
    await once(stranger, 'spawn');
    writeFileSync(join(dataDir, 'cluster', 'postmaster.pid'), `${stranger.pid}\n`);
    writeFileSync(join(dataDir, 'owner.lock'), `${stranger.pid} 1 other-process\nx\n`);
    const second = await start(dataDir);
    expect(await ask(second.url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
  });

  test('a watchdog signals no other process with the pid of its server', async () => {
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    cleanups.push(() => void stranger.kill('SIGKILL'));
    await once(stranger, 'spawn');
    const script = new URL('../src/watchdog-process.ts', import.meta.url).pathname;
    const watchdog = spawn(process.execPath, [script, `${stranger.pid} 1 of-another-boot`], {
      stdio: ['pipe', 'inherit', 'inherit'],
    });
    watchdog.stdin.end();
    expect(await once(watchdog, 'exit')).toEqual([0, null]);
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
  });

  test('an interrupted initialization is repeated', async () => {
    const dataDir = newDirectory();
    mkdirSync(join(dataDir, 'initdb-half', 'cluster', 'base'), { recursive: true });
    writeFileSync(join(dataDir, 'password'), 'of an earlier attempt');
    const { url } = await start(dataDir);
    expect(await ask(url, 'select 1 as one')).toEqual([{ one: 1 }]);
    expect(existsSync(join(dataDir, 'initdb-half'))).toBe(false);
  });
});

describe('its owner', () => {
  test('exits with its own code without stopping the server, which ends too', async () => {
    const owner = await startOwner(usedDirectory, 'exit-with-7');
    const [code] = (await once(owner.child, 'exit')) as [number];
    expect(code).toBe(7);
    await untilEnded(owner.pid);
  });

  test('exits by itself when it has no work left', async () => {
    const owner = await startOwner(usedDirectory, 'do-nothing');
    const [code] = (await once(owner.child, 'exit')) as [number];
    expect(code).toBe(0);
    await untilEnded(owner.pid);
  });

  test('drains after a SIGTERM while the server still runs', async () => {
    const owner = await startOwner(usedDirectory, 'drain');
    owner.child.kill('SIGTERM');
    const [code] = (await once(owner.child, 'exit')) as [number];
    expect(code).toBe(0);
    await untilEnded(owner.pid);
  });
});

describe('a failed start names the next step', () => {
  test('data of another major version', async () => {
    const dataDir = newDirectory();
    mkdirSync(join(dataDir, 'cluster'));
    writeFileSync(join(dataDir, 'cluster', 'PG_VERSION'), '15\n');
    await expect(start(dataDir)).rejects.toThrow(/data of PostgreSQL 15.*PostgreSQL 18.*DATABASE_URL/s);
  });

  test('a missing password', async () => {
    const dataDir = newDirectory();
    mkdirSync(join(dataDir, 'cluster'));
    writeFileSync(join(dataDir, 'cluster', 'PG_VERSION'), '18\n');
    await expect(start(dataDir)).rejects.toThrow(/password is missing.*Put it back/);
  });

  test('an impossible directory', async () => {
    const file = join(newDirectory(), 'file');
    writeFileSync(file, '');
    await expect(start(join(file, 'pg'))).rejects.toThrow(/cannot keep its data.*Choose a directory/);
  });

  test('a setting that PostgreSQL refuses', async () => {
    const dataDir = usedDirectory;
    await expect(start(dataDir, { settings: { max_connections: 'many' } })).rejects.toThrow(
      /did not start.*invalid value for parameter "max_connections".*DATABASE_URL/s,
    );
    // The directory must not stay locked.
    await start(dataDir);
  });
});
