import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, onTestFinished, test, vi } from 'vitest';
import { connect, MIGRATIONS, migrateToLatest } from '../../libs/db/src/index.ts';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { createClient, type Client } from '../../scripts/demo/client.ts';
import { createPool, providePostgres } from '../../libs/services/src/index.ts';
import { startCommand } from './command.ts';
import { familyOf, lives } from './house.ts';

const root = join(import.meta.dirname, '../..');
let dir: string;
let started: ChildProcess[];

/** Holds the cluster of {@link bringCluster}. */
let prepared: string;

beforeAll(async () => {
  prepared = await mkdtemp(join(tmpdir(), 'nightshift-cluster-'));
  const { url, stop } = await providePostgres({ dataDir: join(prepared, 'pg'), durable: false });
  const pool = createPool({ url, max: 1 });
  await migrateToLatest(connect(pool));
  await pool.end();
  await stop();
});
afterAll(() => rm(prepared, { recursive: true, force: true }));
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-start-'));
  started = [];
});
afterEach(async () => {
  for (const child of started) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGTERM');
    await once(child, 'close');
  }
  await rm(dir, { recursive: true, force: true, maxRetries: 5 });
});

interface Service {
  readonly child: ChildProcess;
  /** Returns the terminal output so far. */
  shown(): string;
  /** Resolves with the exit code after all output. */
  readonly ended: Promise<number | null>;
}

/** Starts the service in its own directory, on any free port unless `env` names one. */
function start(
  env: Readonly<Record<string, string>> = {},
  command = [process.execPath, 'scripts/start.ts'],
  cwd = root,
): Service {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '' } = process.env;
  const child = spawn(command[0]!, command.slice(1), {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH, HOME, NODE_COMPILE_CACHE, DATA_DIR: dir, PORT: '0', ...env },
  });
  started.push(child);
  let shown = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (shown += chunk.toString()));
  return { child, shown: () => shown, ended: once(child, 'close').then(([code]) => code as number | null) };
}

/** Puts a migrated cluster into the directory, for starts that need their own server and not its creation. */
function bringCluster(): void {
  const { status, stderr } = spawnSync('cp', ['-a', join(prepared, 'pg'), dir], { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
}

/** An existing database, for starts that work with any database. */
async function elsewhere(): Promise<{ readonly DATABASE_URL: string }> {
  const { url, close } = await openTestDatabase(inject('postgresUrl'));
  onTestFinished(close);
  return { DATABASE_URL: url };
}

async function end(service: Service): Promise<void> {
  service.child.kill('SIGTERM');
  expect(await service.ended).toBe(0);
}

async function untilShown(service: Service, what: RegExp): Promise<RegExpExecArray> {
  await vi.waitUntil(() => what.test(service.shown()) || service.child.exitCode !== null, {
    timeout: 120_000,
    interval: 20,
  });
  const found = what.exec(service.shown());
  if (found === null) throw new Error(`Never shown: ${what}, but: ${service.shown()}`);
  return found;
}

/** Returns the address of the API once the service is up. */
async function untilUp(service: Service): Promise<string> {
  const [, url = ''] = await untilShown(service, /API {7}(http\S+)[^]*Ctrl-C/);
  return url;
}

function clientOf(url: string): Client {
  return createClient(url, readFileSync(join(dir, 'api-key'), 'utf8').trim());
}

/** Returns the processes of the service that run `entry`. */
function pidsOf(service: Service, entry: string): readonly number[] {
  return familyOf(service.child.pid ?? 0).filter((id) =>
    wordsOf(id)
      .slice(1)
      .find((word) => !word.startsWith('--'))
      ?.endsWith(entry),
  );
}

/** Returns the first process that runs `entry`. */
function pidOf(service: Service, entry: string): number {
  const [pid] = pidsOf(service, entry);
  if (pid === undefined) throw new Error(`No ${entry} among the processes of the service.`);
  return pid;
}

/** Returns the command line of a process; empty if it has ended. */
function wordsOf(id: number): readonly string[] {
  try {
    return readFileSync(`/proc/${id}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

interface WireBatch {
  readonly id: string;
  readonly status: string;
  readonly counts: { readonly completed: number };
  readonly usage: { readonly steps: number };
}

/** Submits `count` runs of one step each. */
async function submit(client: Client, count: number): Promise<string> {
  const requests = [];
  for (let place = 0; place < count; place++) {
    const agent = await client.post<{ readonly id: string }>('/v1/agents/', {
      name: `agent ${place}`,
      model: 'anthropic/claude-haiku-4-5',
      include_base_tools: false,
    });
    requests.push({ agent_id: agent.id, input: `Say ${place}.` });
  }
  return (await client.post<WireBatch>('/v1/messages/batches', { requests })).id;
}

async function untilCompleted(client: Client, id: string): Promise<WireBatch> {
  return vi.waitUntil(
    async () => {
      const batch = await client.get<WireBatch>(`/v1/messages/batches/${id}`).catch(() => undefined);
      return batch?.status === 'completed' && batch;
    },
    { timeout: 120_000, interval: 50 },
  );
}

test('a killed worker, API or simulator is restarted, and the terminal says so', async () => {
  const service = start(await elsewhere());
  const url = await untilUp(service);
  const client = clientOf(url);
  process.kill(pidOf(service, 'worker/src/main.ts'), 'SIGKILL');
  const batch = await submit(client, 3);
  await untilShown(service, /^worker-1 ended \(SIGKILL\); starting it again$/m);
  expect(await untilCompleted(client, batch)).toMatchObject({
    counts: { completed: 3 },
    usage: { steps: 3 },
  });

  process.kill(pidOf(service, 'simulator/src/main.ts'), 'SIGKILL');
  process.kill(pidOf(service, 'api/src/main.ts'), 'SIGKILL');
  await untilShown(service, /^simulator ended \(SIGKILL\)/m);
  await untilShown(service, /^api ended \(SIGKILL\); starting it again$/m);
  await vi.waitUntil(async () => (await fetch(`${url}/readyz`).catch(() => undefined))?.ok, {
    timeout: 120_000,
  });
  expect((await untilCompleted(client, await submit(client, 2))).counts).toMatchObject({ completed: 2 });

  service.child.kill('SIGTERM');
  expect(await service.ended).toBe(0);
  expect(service.shown().match(/ended \(/g)).toHaveLength(3);
});

test('the command finds a running start by its data directory, and no address is left at its end', async () => {
  const service = start(await elsewhere());
  const url = await untilUp(service);
  expect(service.shown()).toContain('npx nightshift ls');
  expect(readFileSync(join(dir, 'api-url'), 'utf8')).toBe(`${url}\n`);
  const { exitCode, stderr } = await startCommand(['ls'], { DATA_DIR: dir }, dir).ended;
  expect({ exitCode, stderr }).toMatchObject({
    exitCode: 0,
    stderr: expect.stringMatching(/No batches/) as unknown,
  });
  await end(service);
  expect(existsSync(join(dir, 'api-url'))).toBe(false);
});

test('work that a killed simulator has lost is resent and applied once', async () => {
  const database = await elsewhere();
  const service = start({
    ...database,
    RETRY_DELAY_MS: '100',
    POLL_INTERVAL_MS: '2000',
    MISSING_GRACE_MS: '500',
  });
  const client = clientOf(await untilUp(service));
  const pool = createPool({ url: database.DATABASE_URL, max: 1, applicationName: 'test' });
  try {
    const batch = await submit(client, 3);
    await vi.waitUntil(
      async () => (await pool.query(`select from provider_batch where state = 'submitted'`)).rowCount === 1,
      { timeout: 120_000, interval: 20 },
    );
    process.kill(pidOf(service, 'simulator/src/main.ts'), 'SIGKILL');
    expect(await untilCompleted(client, batch)).toMatchObject({
      counts: { completed: 3 },
      usage: { steps: 3 },
    });
    const { rows } = await pool.query('select state, count(*)::int from step group by 1 order by 1');
    expect(rows).toEqual([
      { state: 'done', count: 3 },
      { state: 'lost', count: 3 },
    ]);
    expect(readFileSync(join(dir, 'logs/worker-1.log'), 'utf8')).toMatch(
      /"level":40.*the provider does not know a batch/,
    );
    const audit = start(database, [process.execPath, 'scripts/audit.ts']);
    expect(await audit.ended).toBe(0);
  } finally {
    await pool.end();
  }
});

test('a failing restart is repeated even when another program answers on the port, and the terminal shows the reason and the log', async () => {
  const service = start(await elsewhere());
  const url = await untilUp(service);
  const batch = await submit(clientOf(url), 1);
  process.kill(pidOf(service, 'api/src/main.ts'), 'SIGKILL');
  const squatter = createHttpServer((_, response) => response.end());
  try {
    await vi.waitFor(
      async () => {
        squatter.listen(Number(new URL(url).port), '127.0.0.1');
        await once(squatter, 'listening');
      },
      { timeout: 15_000, interval: 5 },
    );
    await untilShown(
      service,
      /^api ended \(code 1\) before it was ready: .*EADDRINUSE.*\nIts log: .*api\.log\napi is tried again\n/m,
    );
  } finally {
    squatter.close();
    squatter.closeAllConnections();
  }
  await untilShown(service, /^api is up again$/m);
  expect((await untilCompleted(clientOf(url), batch)).counts).toMatchObject({ completed: 1 });
  await end(service);
});

test.each([
  [{ WORKERS: '0' }, "WORKERS must be a whole number from 1 to 64, not '0'.\n"],
  [{ PORT: 'abc' }, "PORT must be a whole number from 0 to 65535, not 'abc'.\n"],
  [
    { NIGHTSHIFT_API_KEY: 'short' },
    'NIGHTSHIFT_API_KEY must have at least 16 characters, all visible ASCII: no blanks, no line breaks.\n',
  ],
  [
    { QUEUE_URL: 'foo' },
    "QUEUE_URL is not usable: give redis://, rediss://, postgres:// or postgresql:// with a host, or the word 'none'\n",
  ],
])('%j is refused by name', async (env, message) => {
  const service = start(env);
  expect(await service.ended).toBe(1);
  expect(service.shown()).toBe(message);
});

test.each([
  [{ PORT: 'abc' }, /^PORT must be a whole number from 0 to 65535, not 'abc'\.\n$/],
  [{ SECRETS_KEY: 'short' }, /^SECRETS_KEY must be 32 bytes in base64 or hex; .*\n$/],
  [{ SECRETS_KEYS_OLD: 'short' }, /^SECRETS_KEYS_OLD must be keys of 32 bytes .*\n$/],
  [{ NIGHTSHIFT_API_KEY: 'short' }, /^NIGHTSHIFT_API_KEY must have at least 16 characters, .*\n$/],
])('the demo refuses %j by name, before anything starts', async (env, message) => {
  const demo = start(env, [process.execPath, 'scripts/demo.ts']);
  expect(await demo.ended).toBe(1);
  expect(demo.shown()).toMatch(message);
  expect(readdirSync(dir)).toEqual([]);
});

test.each([
  [
    { LEASE_MS: '-1' },
    /^Starting .*\nworker-1 ended \(code 1\) before it was ready: .*LEASE_MS.*\nIts log: .*worker-1\.log\n$/,
  ],
  [
    { BODY_BYTES_TOGETHER_MAX: '0' },
    /^Starting .*\napi ended \(code 1\) before it was ready: .*BODY_BYTES_TOGETHER_MAX.*\nIts log: .*api\.log\n$/,
  ],
])("%j is reported with the refusing program's message, without a stack trace", async (env, message) => {
  const service = start({ ...(await elsewhere()), ...env });
  expect(await service.ended).toBe(1);
  expect(service.shown()).toMatch(message);
});

test.each(['start', 'demo'])(
  '%s refuses a DATA_DIR that is not a directory by name, in one line',
  async (script) => {
    const file = join(dir, 'file');
    await writeFile(file, '');
    const service = start({ DATA_DIR: file }, [process.execPath, `scripts/${script}.ts`]);
    expect(await service.ended).toBe(1);
    expect(service.shown()).toMatch(/^DATA_DIR cannot be used: .*file.*\n$/);
  },
);

test('a fresh demo keeps a directory without an earlier start', async () => {
  await mkdir(join(dir, 'logs'));
  const demo = start({}, [process.execPath, 'scripts/demo.ts', '--fresh']);
  expect(await demo.ended).toBe(1);
  expect(demo.shown()).toMatch(
    /^DATA_DIR is .*, where nothing seems to have been started: .* Remove logs yourself/,
  );
  expect(readdirSync(dir)).toEqual(['logs']);
});

test('a fresh start refuses a database of the user', async () => {
  const service = start(await elsewhere(), [process.execPath, 'scripts/start.ts', '--fresh']);
  expect(await service.ended).toBe(2);
  expect(service.shown()).toMatch(
    /^--fresh removes the embedded database, but DATABASE_URL names another\.\n/,
  );
});

test('a database of an unreleased schema is refused with the command that removes it', async () => {
  const { url, stop } = await providePostgres({ dataDir: join(dir, 'pg'), durable: true });
  const pool = createPool({ url, max: 1 });
  await pool.query(
    `create table kysely_migration (name text); insert into kysely_migration values ('0001_initial')`,
  );
  await pool.end();
  await stop();
  const refused = start();
  expect(await refused.ended).toBe(1);
  expect(refused.shown()).toMatch(
    /^The database was made by an earlier development state .*: npm start -- --fresh\./m,
  );
  const fresh = start({}, [process.execPath, 'scripts/start.ts', '--fresh']);
  await untilUp(fresh);
  await end(fresh);
});

test('relative paths are resolved in the folder of the start', async () => {
  await mkdir(join(dir, 'tools'));
  const service = start(
    { DATA_DIR: 'data', TOOLS_DIR: 'tools' },
    [process.execPath, join(root, 'scripts/start.ts')],
    dir,
  );
  await untilUp(service);
  expect(service.shown()).not.toMatch(/^Tools: /m);
  expect(service.shown()).toContain(`logs      ${join(dir, 'data/logs')}\n`);
  expect(readdirSync(join(dir, 'data')).sort()).toEqual([
    'api-key',
    'api-url',
    'logs',
    'pg',
    'secrets-key',
    'simulator',
  ]);
  const environment = readFileSync(`/proc/${pidOf(service, 'worker/src/main.ts')}/environ`, 'utf8').split(
    '\0',
  );
  expect(environment).toContain(`DATA_DIR=${join(dir, 'data/worker-1')}`);
});

test('a stored key that is too short is refused by the name of its file', async () => {
  await writeFile(join(dir, 'api-key'), 'secret\n');
  const service = start(await elsewhere());
  expect(await service.ended).toBe(1);
  const [begun, ...told] = service.shown().split('\n');
  expect(begun).toMatch(/^Starting /);
  expect(told).toEqual([
    `${join(dir, 'api-key')} holds no API key: delete it; the next start creates a new key.`,
    '',
  ]);
});

test('a database that ends stops the service with a message, and the next start has the accepted work', async () => {
  bringCluster();
  const service = start();
  const id = await submit(clientOf(await untilUp(service)), 2);
  process.kill(
    Number(readFileSync(join(dir, 'pg/cluster/postmaster.pid'), 'utf8').split('\n')[0]),
    'SIGKILL',
  );
  expect(await service.ended).toBe(1);
  expect(service.shown()).toMatch(
    /^The database ended \(SIGKILL, log in .+\). Accepted work is kept: start again.$/m,
  );

  const again = start();
  const { counts, usage } = await untilCompleted(clientOf(await untilUp(again)), id);
  expect([counts.completed, usage.steps]).toEqual([2, 2]);
});

test.each(['start', 'demo'])('%s refuses a required port that is taken', async (script) => {
  const squatter = createServer().listen(0, '127.0.0.1');
  await once(squatter, 'listening');
  try {
    const { port } = squatter.address() as { port: number };
    const env = { ...(await elsewhere()), PORT: String(port) };
    const service = start(env, [process.execPath, `scripts/${script}.ts`]);
    expect(await service.ended).toBe(1);
    expect(service.shown()).toContain(`PORT ${port} cannot be used: another program listens on it.`);
  } finally {
    squatter.close();
  }
});

test('a signal to npm ends the service and all its processes in order', async ({ skip }) => {
  if (spawnSync('npm', ['--version']).status !== 0) return skip('no npm on PATH');
  bringCluster();
  const service = start({}, ['npm', 'start']);
  await untilUp(service);
  const family = familyOf(service.child.pid ?? 0);
  expect(family.length).toBeGreaterThan(5);
  service.child.kill('SIGTERM');
  await service.ended;
  expect(service.shown()).toContain('Stopping …');
  await expect.poll(() => family.filter(lives), { timeout: 120_000 }).toEqual([]);
});

test('a signal ends the service in order, even if duplicated, as in a process group', async () => {
  bringCluster();
  const service = start();
  await untilUp(service);
  // Two equal signals would merge, and a second signal after the first's output could count as intended.
  service.child.kill('SIGHUP');
  service.child.kill('SIGTERM');
  expect(await service.ended).toBe(0);
  expect(service.shown().match(/Stopping …/g)).toHaveLength(1);
  expect(existsSync(join(dir, 'pg/cluster/postmaster.pid'))).toBe(false);
});

test('an intended second signal ends the service at once', async () => {
  const service = start(await elsewhere());
  const url = await untilUp(service);
  // A frozen API delays the stop.
  const api = pidOf(service, 'api/src/main.ts');
  process.kill(api, 'SIGSTOP');
  try {
    service.child.kill('SIGTERM');
    await untilShown(service, /Stopping …/);
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(1);
  } finally {
    process.kill(api, 'SIGCONT');
  }
  await vi.waitUntil(
    () =>
      fetch(url).then(
        () => false,
        () => true,
      ),
    { timeout: 120_000 },
  );
});

test('a signal during the start ends the service in order too, without leftovers', async () => {
  const service = start();
  await untilShown(service, /Starting the database/);
  const family = new Set<number>();
  const look = (): number => {
    for (const id of familyOf(service.child.pid ?? 0)) family.add(id);
    return family.size;
  };
  // The start and its first child: the database is being created, and most work is still to come.
  await vi.waitUntil(() => look() > 1, { timeout: 120_000, interval: 20 });
  service.child.kill('SIGTERM');
  const looks = setInterval(look, 20);
  expect(await service.ended).toBe(0);
  clearInterval(looks);
  expect(service.shown()).toContain('Stopping …');
  await expect.poll(() => [...family].filter(lives), { timeout: 120_000 }).toEqual([]);
  const files = readdirSync(dir, { recursive: true }).map(String);
  expect(files.filter((file) => file.endsWith('postmaster.pid'))).toEqual([]);
});

test.each(['warn', 'silent'])('with LOG_LEVEL=%s the service still comes up', async (level) => {
  await untilUp(start({ ...(await elsewhere()), LOG_LEVEL: level }));
  const log = (): string => readFileSync(join(dir, 'logs/worker-1.log'), 'utf8');
  // The terminal gets the line before the file.
  await expect.poll(log).not.toBe('');
  expect(log().trimEnd().split('\n')).toEqual([expect.stringContaining('worker is at work')]);
});

test('output of a tool and unhandled rejections appear only at debug level', async () => {
  const tools = join(dir, 'tools');
  await mkdir(tools);
  await writeFile(
    join(tools, 'talks.ts'),
    `export const description = 'Talks.';
     export const parameters = { type: 'object' };
     export const run = () => null;
     console.log('data of a customer');
     void Promise.reject(new Error('left alone'));`,
  );
  await untilUp(start({ ...(await elsewhere()), TOOLS_DIR: tools, LOG_LEVEL: 'debug' }));
  const log = readFileSync(join(dir, 'logs/worker-1.log'), 'utf8');
  expect(log).toMatch(/"level":20,.*"msg":"\[module\] data of a customer"/);
  expect(log).toMatch(/"level":20,.*"msg":"\[module\] unhandled promise rejection.*left alone/);
  expect(log).not.toMatch(/"level":[3-6]0,.*(?:data of a customer|left alone)/);
});

test.each(['info', 'error', 'silent'])(
  'with LOG_LEVEL=%s the terminal names the skipped tool module and the missing folder',
  async (level) => {
    const tools = join(dir, 'tools');
    await mkdir(tools);
    await writeFile(join(tools, 'broken.ts'), 'export const description = ;');
    await writeFile(
      join(tools, 'odd.ts'),
      `export const description = 'Odd.';
     export const parameters = { type: 'object', anyOf: [{}] };
     export const run = () => null;`,
    );
    const toolsDirs = [tools, join(dir, 'nowhere')].join(delimiter);
    const env = { TOOLS_DIR: toolsDirs, WORKERS: '2', LOG_LEVEL: level };
    const service = start({ ...(await elsewhere()), ...env });
    await untilUp(service);
    const told = service.shown().match(/^Tools: .*$/gm) ?? [];
    expect(told.toSorted()).toEqual([
      expect.stringMatching(/nowhere is left out: the tools folder cannot be read/),
      expect.stringMatching(/broken\.ts is left out: ./),
      expect.stringMatching(/odd\.ts is left out: .*anyOf/),
    ]);
  },
);

test('the terminal and the log name a tool of agents whose module is missing', async () => {
  const tools = join(dir, 'tools');
  await mkdir(tools);
  for (const name of ['gone', 'unused'])
    await writeFile(
      join(tools, `${name}.ts`),
      `export const description = 'Answers.';
       export const parameters = { type: 'object' };
       export const run = () => null;`,
    );
  const database = await elsewhere();
  const before = start({ ...database, TOOLS_DIR: tools });
  const client = clientOf(await untilUp(before));
  await client.post('/v1/agents/', { name: 'Ann', model: 'anthropic/claude-haiku-4-5', tools: ['gone'] });
  expect(before.shown()).not.toMatch(/^Tools: /m);
  await end(before);

  const after = start({ ...database, WORKERS: '2', LOG_LEVEL: 'error' });
  await untilUp(after);
  expect(after.shown().match(/^Tools: .*$/gm)).toEqual([
    'Tools: agents have gone, of which TOOLS_DIR holds no usable module: their calls fail.',
  ]);
  const log = readFileSync(join(dir, 'logs/worker-1.log'), 'utf8');
  expect(log).toMatch(/"level":40,.*"flow":"register-tools",.*"outcome":"missing","tools":"gone"/);
});

test('with HOST the service listens there and prints the address', async () => {
  const url = await untilUp(start({ ...(await elsewhere()), HOST: '127.0.0.2' }));
  expect(new URL(url).hostname).toBe('127.0.0.2');
  expect((await fetch(`${url}/readyz`)).ok).toBe(true);
});

/** A key, and a URL without a listener, so that requests fail. */
const REAL = { ANTHROPIC_API_KEY: 'key', ANTHROPIC_BASE_URL: 'http://127.0.0.1:9' };

test('the demo does not start while unfinished runs of an earlier start would be billed with its own', async () => {
  bringCluster();
  const service = start({ GATHER_WINDOW_MS: '3600000' });
  await untilUp(service).then((url) => submit(clientOf(url), 2));
  await end(service);
  const demo = start({}, [process.execPath, 'scripts/demo.ts', '--agents', '1']);
  expect(await demo.ended).toBe(1);
  expect(demo.shown()).toMatch(/^Runs of earlier starts are not finished \(2\).* npm start .* --fresh/m);
  expect(demo.shown()).not.toMatch(/night 1/);
  // The real provider is not paid for them either.
  const paid = start(REAL, [process.execPath, 'scripts/demo.ts', '--agents', '1']);
  expect(await paid.ended).toBe(1);
  expect(paid.shown()).toMatch(
    /^Unfinished at the simulator: 2 runs\. .* Start without ANTHROPIC_API_KEY .* npm run demo -- --fresh$/m,
  );
});

test('a demo without workers reports it and ends', async () => {
  const demo = start(await elsewhere(), [
    ...[process.execPath, 'scripts/demo.ts'],
    ...['--agents', '3', '--no-chaos'],
  ]);
  await untilShown(demo, /^3 agents, each/m);
  // Looked up at once: a killed process remains visible for a moment.
  const workers = pidsOf(demo, 'worker/src/main.ts');
  expect(workers).toHaveLength(2);
  for (const pid of workers) process.kill(pid, 'SIGKILL');
  expect(await demo.ended).toBe(1);
  expect(demo.shown()).toMatch(/No worker is left; the logs are in .*logs\./);
});

test('a demo with a key calls the provider at ANTHROPIC_BASE_URL', async () => {
  const asked = Promise.withResolvers<string | undefined>();
  const provider = createHttpServer((request, response) => {
    asked.resolve(request.url);
    response.writeHead(500).end();
  }).listen(0, '127.0.0.1');
  try {
    await once(provider, 'listening');
    const { port } = provider.address() as { port: number };
    const env = {
      ...(await elsewhere()),
      ...REAL,
      ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}`,
      GATHER_WINDOW_MS: '1',
    };
    const demo = start(env, [process.execPath, 'scripts/demo.ts', '--agents', '1']);
    expect(await asked.promise).toMatch(/^[/]v1[/]/);
    await untilShown(
      demo,
      new RegExp(`^Model: REAL, on your key: the provider at 127[.]0[.]0[.]1:${port} `, 'm'),
    );
    demo.child.kill('SIGTERM');
    await demo.ended;
  } finally {
    provider.closeAllConnections();
    provider.close();
  }
});

test('without the key, work at the real provider is not taken over, and the terminal names the next step', async () => {
  const database = await elsewhere();
  const service = start({ ...database, ...REAL });
  await untilUp(service).then((url) => submit(clientOf(url), 1));
  expect(service.shown()).toMatch(
    /^ {2}model {5}real: the provider at 127\.0\.0\.1:9 \(ANTHROPIC_BASE_URL\)$/m,
  );
  await end(service);
  const again = start(database);
  expect(await again.ended).toBe(1);
  expect(again.shown()).toMatch(
    /^Starting .*\nUnfinished at the real provider: 1 run.*\. .* Start with ANTHROPIC_API_KEY .*\n$/,
  );
  // The existing worker log is from the first start.
  expect(readdirSync(join(dir, 'logs')).sort()).toEqual(['api.previous.log', 'worker-1.previous.log']);
});

test('connection settings reach the processes that connect, a proxy only the workers, and tools none', async () => {
  bringCluster();
  const connecting = {
    USER: 'night',
    PGUSER: 'night',
    PGPASSWORD: 'secret',
    // For a server with TLS; the embedded server has none.
    PGSSLMODE: 'require',
    PGSSLNEGOTIATION: 'direct',
    NODE_EXTRA_CA_CERTS: join(root, 'package.json'),
    SSL_CERT_DIR: '/etc/ssl/certs',
  };
  const proxy = { HTTPS_PROXY: 'http://127.0.0.1:9', no_proxy: 'here', NODE_USE_ENV_PROXY: '1' };
  const service = start({ ...REAL, ...connecting, ...proxy, NO_PROXY: '127.0.0.1', UNRELATED: 'x' });
  await untilUp(service);
  const seenBy = (entry: string): Record<string, string> => {
    const environment = readFileSync(`/proc/${pidOf(service, entry)}/environ`, 'utf8').split('\0');
    const names = new Set([...Object.keys({ ...connecting, ...proxy }), 'UNRELATED', 'ANTHROPIC_API_KEY']);
    return Object.fromEntries(
      environment.map((pair) => pair.split('=', 2) as [string, string]).filter(([name]) => names.has(name)),
    );
  };
  expect(seenBy('worker/src/main.ts')).toEqual({ ...connecting, ...proxy, ANTHROPIC_API_KEY: 'key' });
  expect(seenBy('api/src/main.ts')).toEqual({ ...connecting, ANTHROPIC_API_KEY: 'set' });
  expect(seenBy('tool-host/src/host.ts')).toEqual({});
});

test('an audit without a start says so and creates no database', async () => {
  const audit = start({ DATABASE_URL: '' }, [process.execPath, 'scripts/audit.ts']);
  expect(await audit.ended).toBe(1);
  expect(audit.shown()).toBe(
    `There is no database in ${dir}, because no service was started there. Set DATA_DIR or DATABASE_URL.\n`,
  );
  expect(readdirSync(dir)).toEqual([]);
});

test('an audit of an unprepared database says so in one line', async () => {
  const { url, stop } = await providePostgres({ dataDir: join(dir, 'pg'), durable: true });
  try {
    const audit = start({ DATABASE_URL: url, DATA_DIR: '' }, [process.execPath, 'scripts/audit.ts']);
    expect(await audit.ended).toBe(1);
    expect(audit.shown()).toBe(
      `The database lacks the migrations ${Object.keys(MIGRATIONS).join(', ')}: run the migrate step, node scripts/migrate.ts.\n`,
    );
  } finally {
    await stop();
  }
});

test('the books are audited while the service is up', async () => {
  bringCluster();
  await untilUp(start());
  const audit = start({}, [process.execPath, 'scripts/audit.ts', '--resume']);
  expect(await audit.ended).toBe(0);
  expect(audit.shown()).toBe('No invariant is violated.\nSubmissions were not halted.\n');
});

test('the logs of the last start are kept, and a second service in the same directory is refused in one line', async () => {
  const database = await elsewhere();
  for (const workers of ['2', '1']) {
    const service = start({ ...database, WORKERS: workers });
    await untilUp(service);
    expect(service.shown()).toMatch(new RegExp(`^  workers {3}${workers}`, 'm'));
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(0);
  }
  const [last, previous] = ['worker-1.log', 'worker-1.previous.log'].map((file) =>
    readFileSync(join(dir, 'logs', file), 'utf8').match(/worker is at work/g),
  );
  expect({ last, previous }).toEqual({ last: ['worker is at work'], previous: ['worker is at work'] });
  expect(existsSync(join(dir, 'logs/worker-2.previous.log'))).toBe(true);
});
