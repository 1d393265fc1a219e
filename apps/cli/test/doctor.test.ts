import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { PAUSE_REASONS } from '@nightshift/agent-core';
import {
  commitHeartbeat,
  connect,
  DEFAULT_PROJECT_ID,
  pauseCredential,
  type WorkerSelf,
} from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { createPool, findFreePort, startEmbeddedPostgres } from '@nightshift/services';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { buildServer } from '../../api/src/index.ts';
import { readConfig } from '../src/config.ts';
import { readTime } from '../src/doctor/at-time.ts';
import { runCommandLine, type Surroundings } from '../src/index.ts';

const KEY = 'ns_key_of_the_doctor';
const WORKER: WorkerSelf = {
  owner: 'w1',
  name: 'worker-1',
  host: 'host',
  pid: 1,
  version: '0.1.0',
  tools: {},
};

type Parts = Parameters<typeof buildServer>[0];
interface Api {
  readonly url: string;
  close(): Promise<void>;
}

let database: TestDatabase;
let api: Api;
let dir: string;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  api = await listen();
});
afterAll(async () => {
  await api.close();
  await database.close();
});
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'nightshift-doctor-'));
  await commitHeartbeat(database.db, DEFAULT_PROJECT_ID, WORKER);
});
afterEach(async () => {
  rmSync(dir, { recursive: true, force: true });
  await database.pool.query(`
    delete from worker; delete from agent_tool; delete from tool where kind = 'module'; delete from run_chunk;
    delete from audit_report; delete from schedule; update agent set deleted_at = app_now() where deleted_at is null;
    update credential set paused_until = null, pause_reason = null, clock_measured_at = null, clock_offset_ms = null,
                          clock_uncertainty_ms = null`);
});

/** Starts a real API on the database. */
async function listen(parts: Partial<Parts> = {}): Promise<Api> {
  const app = buildServer({
    db: database.db,
    bell: { ring: async () => undefined },
    apiKey: KEY,
    model: 'simulator',
    ...parts,
  });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  return { url, close: () => app.close() };
}

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `nightshift doctor` in an empty folder. */
async function doctor(
  env: Readonly<Record<string, string>> = {},
  ...args: readonly string[]
): Promise<Ended> {
  const written = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr'): NodeJS.WriteStream =>
    new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        written[name] += chunk.toString();
        done();
      },
    }) as unknown as NodeJS.WriteStream;
  const surroundings: Surroundings = {
    stdout: into('stdout'),
    stderr: into('stderr'),
    signal: new AbortController().signal,
    version: '0.1.0',
    configure: (flags) =>
      readConfig(
        flags,
        { NIGHTSHIFT_URL: api.url, NIGHTSHIFT_API_KEY: KEY, XDG_CONFIG_HOME: dir, ...env },
        dir,
      ),
  };
  const code = await runCommandLine(['doctor', ...args], surroundings);
  return { code, ...written };
}

/** Serves every request in one way, as another program does. */
async function serve(answer: RequestListener): Promise<Server & { readonly url: string }> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(server, { url: `http://127.0.0.1:${port}` });
}

const sql = (statement: string, parameters: unknown[] = []): Promise<unknown> =>
  database.pool.query(statement, parameters);

/** Stores an agent of a model. */
async function createAgent(model = 'anthropic/claude-haiku-4-5'): Promise<string> {
  const answer = await fetch(`${api.url}/v1/agents/`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'agent', model: 'anthropic/claude-haiku-4-5', include_base_tools: false }),
  });
  const { id } = (await answer.json()) as { readonly id: string };
  await sql(`update agent set model = $1 where id = $2`, [model, id.slice('agent-'.length)]);
  return id.slice('agent-'.length);
}

test('a sound service: a line for each check, and exit code 0', async () => {
  const { code, stdout, stderr } = await doctor();
  expect(stdout).toMatch(
    /^✔ api +http:\/\/127\.0\.0\.1:\d+ \(from the environment\) answers, version 0\.1\.0\.\n✔ database /,
  );
  expect(stdout.split('\n').filter((line) => !line.startsWith('✔ '))).toEqual(['']);
  expect(stderr).toMatch(/^0 failing, 0 to watch, \d+ in order\.\n$/);
  expect(code).toBe(0);
});

test('--json is one object with every check and its details', async () => {
  const { code, stdout } = await doctor({}, '--json');
  const { ok, reachable, checks } = JSON.parse(stdout) as {
    readonly ok: boolean;
    readonly reachable: boolean;
    readonly checks: readonly { readonly name: string; readonly details: unknown }[];
  };
  expect({ code, ok, reachable }).toEqual({ code: 0, ok: true, reachable: true });
  expect(checks.find(({ name }) => name === 'workers')).toMatchObject({
    details: { workers: [{ name: 'worker-1', is_alive: true }] },
  });
});

describe('without an API that answers, the environment is examined, and the exit code is 3', () => {
  test('no API runs', async () => {
    const NIGHTSHIFT_URL = `http://127.0.0.1:${await findFreePort()}`;
    const { code, stdout } = await doctor({ NIGHTSHIFT_URL });
    expect(stdout).toContain(`✖ address`);
    expect(stdout).toContain(`${NIGHTSHIFT_URL} (from the environment) has no program that listens.`);
    expect(code).toBe(3);
  });

  test('the address is wrong, and npm start wrote another, where an API listens', async () => {
    mkdirSync(join(dir, '.data'));
    writeFileSync(join(dir, '.data', 'api-key'), KEY);
    writeFileSync(join(dir, '.data', 'api-url'), api.url);
    const { code, stdout } = await doctor({ NIGHTSHIFT_URL: `http://127.0.0.1:${await findFreePort()}` });
    expect(stdout).toContain(`An API of npm start listens at ${api.url}: unset NIGHTSHIFT_URL`);
    expect(code).toBe(3);
    expect((await doctor({ NIGHTSHIFT_URL: '', NIGHTSHIFT_API_KEY: '' })).code, 'without variables').toBe(0);
  });

  test.each<[string, RequestListener]>([
    ['a page', (_request, response) => response.setHeader('content-type', 'text/html').end('<html>')],
    [
      'JSON',
      (_request, response) => response.setHeader('content-type', 'application/json').end('{"ok":true}'),
    ],
    ['not found', (_request, response) => response.writeHead(404).end('nothing here')],
  ])('another server answers with %s', async (_what, answer) => {
    const other = await serve(answer);
    try {
      const { code, stdout } = await doctor({ NIGHTSHIFT_URL: other.url });
      expect(stdout).toContain(`Another program than Nightshift's API answers at ${other.url}`);
      expect(code).toBe(3);
    } finally {
      other.close();
    }
  });

  test('the embedded database is stopped, or was killed', async () => {
    const cluster = join(dir, '.data', 'pg', 'cluster');
    mkdirSync(cluster, { recursive: true });
    writeFileSync(join(dir, '.data', 'api-key'), KEY);
    const env = { NIGHTSHIFT_URL: `http://127.0.0.1:${await findFreePort()}` };
    expect((await doctor(env)).stdout).toContain('The embedded PostgreSQL is stopped.');
    // A process id beyond the largest of Linux.
    writeFileSync(join(cluster, 'postmaster.pid'), '99999999\n');
    expect((await doctor(env)).stdout).toContain('The embedded PostgreSQL has ended without a stop.');
  });

  test('the server of DATABASE_URL does not listen', async () => {
    const port = await findFreePort();
    const { stdout } = await doctor({
      NIGHTSHIFT_URL: `http://127.0.0.1:${await findFreePort()}`,
      DATABASE_URL: `postgres://user:secret@127.0.0.1:${port}/nightshift`,
    });
    expect(stdout).toContain(`127.0.0.1:${port} of DATABASE_URL has no program that listens.`);
    expect(stdout).not.toContain('secret');
  });
});

describe('a key', () => {
  test('is wrong', async () => {
    const { code, stdout } = await doctor({ NIGHTSHIFT_API_KEY: 'ns_another_key_entirely' });
    expect(stdout).toContain('The API refuses the key from the environment.');
    expect(stdout).not.toContain('ns_another_key_entirely');
    expect(code).toBe(1);
  });

  test('is missing', async () => {
    const { code, stdout } = await doctor({ NIGHTSHIFT_API_KEY: '' });
    expect(stdout).toContain('✖ key  There is no API key.');
    expect(code).toBe(1);
  });

  test('of the environment hides that of npm start', async () => {
    mkdirSync(join(dir, '.data'));
    writeFileSync(join(dir, '.data', 'api-key'), KEY);
    const { stdout } = await doctor({ NIGHTSHIFT_API_KEY: 'ns_another_key_entirely' });
    expect(stdout).toContain('The data folder of npm start has another key: unset NIGHTSHIFT_API_KEY');
  });
});

test('an API without checks is named as older', async () => {
  const old = await serve((_request, response) =>
    response
      .writeHead(404, { 'content-type': 'application/problem+json' })
      .end(JSON.stringify({ code: 'unknown_path', detail: 'There is no such path.', status: 404 })),
  );
  const { code, stdout } = await doctor({ NIGHTSHIFT_URL: old.url });
  expect(stdout).toContain('is older than this command');
  expect(code).toBe(1);
  old.close();
});

/** A broken set-up, the line that names its cause, and the exit code. */
interface Broken {
  readonly what: string;
  readonly break: () => Promise<unknown>;
  readonly line: RegExp;
  readonly code: number;
}

const TOOL_ID = '01890000-0000-7000-8000-00000000bbbb';
const BROKEN: readonly Broken[] = [
  {
    what: 'no worker is alive',
    break: () => sql('delete from worker'),
    line: /^✖ workers +No worker is alive\.$/m,
    code: 1,
  },
  {
    what: 'a worker is of another version',
    break: () =>
      commitHeartbeat(database.db, DEFAULT_PROJECT_ID, {
        ...WORKER,
        owner: 'w2',
        name: 'old',
        version: '0.0.1',
      }),
    line: /^! workers +The API is version 0\.1\.0, but old is 0\.0\.1\.$/m,
    code: 0,
  },
  {
    what: 'workers have different tools',
    break: () =>
      commitHeartbeat(database.db, DEFAULT_PROJECT_ID, { ...WORKER, owner: 'w2', tools: { shout: 'a' } }),
    line: /^! tools +The workers do not have the same tool shout\.$/m,
    code: 0,
  },
  {
    what: 'no worker has a tool of an agent',
    break: async () => {
      const agent = await createAgent();
      await sql(
        `insert into tool (id, project_id, name, kind, tool_type, description, input_schema, side_effects, return_char_limit, timeout_ms, source_type)
         values ($1, $2, 'look_up', 'module', 'custom', '', '{}', 'none', 100, 100, 'json')`,
        [TOOL_ID, DEFAULT_PROJECT_ID],
      );
      await sql(`insert into agent_tool (agent_id, tool_id, project_id, position) values ($1, $2, $3, 9)`, [
        agent,
        TOOL_ID,
        DEFAULT_PROJECT_ID,
      ]);
    },
    line: /^✖ tools +No worker has the tools look_up, which agents have\.$/m,
    code: 1,
  },
  {
    what: 'the provider refuses the key',
    break: () => pauseCredential(database.db, 'default', 600_000, PAUSE_REASONS.unauthorized),
    line: /^✖ provider_keys +Sending under the key default is paused until .*: the provider refuses the key\.$/m,
    code: 1,
  },
  {
    what: 'a model has no price',
    break: () => createAgent('anthropic/claude-unheard-of'),
    line: /^✖ prices +The price table .* lacks anthropic\/claude-unheard-of, which agents use\.$/m,
    code: 1,
  },
  {
    what: 'the books do not balance',
    break: () =>
      sql(
        `insert into audit_report (id, project_id, finished_at, violations) values (gen_random_uuid(), $1, app_now(), $2)`,
        [DEFAULT_PROJECT_ID, '[{"id":"I8","name":"No step is paid twice","row":{}}]'],
      ),
    line: /^✖ books +The last audit, \d+ s ago, found 1 violation of I8: No step is paid twice\.$/m,
    code: 1,
  },
  {
    what: 'due rows wait',
    break: () =>
      sql(
        `insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
         values (gen_random_uuid(), $1, 'tools', array[gen_random_uuid()], app_now() - interval '2 hours')`,
        [DEFAULT_PROJECT_ID],
      ),
    line: /^✖ backlog +Runs with tool calls waited 2 h for a worker\.$/m,
    code: 1,
  },
  {
    what: 'the clock of the provider is off',
    break: () =>
      sql(
        'update credential set clock_offset_ms = 90000, clock_uncertainty_ms = 200, clock_measured_at = app_now()',
      ),
    line: /^✖ clocks +The clocks of database and provider \(default\) are 90 s apart\.$/m,
    code: 1,
  },
];

test.each(BROKEN)('the cause is named: $what', async ({ break: breakIt, line, code: expected }) => {
  await breakIt();
  const { code, stdout } = await doctor();
  expect(stdout).toMatch(line);
  // The cause alone, with an advice below it.
  expect(stdout.match(/^✖.*$/gm) ?? []).toHaveLength(expected);
  expect(stdout).toMatch(/^ +→ \S/m);
  expect(code).toBe(expected);
});

test('the cause is named: a migration is missing', async () => {
  await sql(`update kysely_migration set name = '0006-forgotten' where name = '0006-workers'`);
  try {
    const { code, stdout } = await doctor();
    expect(stdout).toMatch(/^✖ migrations +The database lacks the migrations 0006-workers\.$/m);
    expect(code).toBe(1);
  } finally {
    await sql(`update kysely_migration set name = '0006-workers' where name = '0006-forgotten'`);
  }
});

test('the cause is named: the queue is down, the disk is full', async () => {
  const { checkQueue } = await import('@nightshift/queue');
  const { checkRedis } = await import('@nightshift/services');
  const queueUrl = `redis://:hunter2@127.0.0.1:${await findFreePort()}`;
  const broken = await listen({
    queue: { backend: 'redis', check: () => checkQueue(queueUrl, { checkRedis }) },
    disk: async () => ({ free_bytes: 1_000_000, total_bytes: 1_000_000_000, holds_database: true }),
  });
  try {
    const { code, stdout } = await doctor({ NIGHTSHIFT_URL: broken.url });
    expect(stdout).toMatch(/^! queue +Cannot use the Redis of QUEUE_URL/m);
    expect(stdout).toMatch(/^✖ disk +1\.0 MB are free on the disk of the database\.$/m);
    expect(stdout).not.toContain('hunter2');
    expect(code).toBe(1);
  } finally {
    await broken.close();
  }
});

test('the cause is named: the database has few connections left', async () => {
  const MAX = 30;
  const server = await startEmbeddedPostgres({
    dataDir: join(dir, 'pg'),
    durable: false,
    settings: { max_connections: MAX },
  });
  const small = await openTestDatabase(server.url);
  const db = connect(createPool({ url: small.url, max: 1 }));
  const crowded = await listen({ db });
  const clients: pg.Client[] = [];
  try {
    await commitHeartbeat(db, DEFAULT_PROJECT_ID, WORKER);
    const { rows } = await small.pool.query<{ used: number }>(
      `select count(*)::int as used from pg_stat_activity where backend_type = 'client backend'`,
    );
    for (let used = rows[0]?.used ?? 0; used < MAX - 3; used++) {
      const client = new pg.Client({ connectionString: small.url });
      client.on('error', () => undefined);
      clients.push(client);
      await client.connect();
    }
    const { code, stdout } = await doctor({ NIGHTSHIFT_URL: crowded.url });
    expect(stdout).toMatch(/^✖ connections +27 of 30 connections are in use\.$/m);
    expect(code).toBe(1);
  } finally {
    await Promise.all(clients.map((client) => client.end()));
    await crowded.close();
    await db.destroy();
    await small.close();
    await server.stop();
  }
});

describe('--at', () => {
  test('lists what the schedules of the night will meet', async () => {
    await createAgent();
    for (const [name, cap] of [
      ['nightly', 2.5],
      ['other', null],
    ] as const) {
      await fetch(`${api.url}/v1/schedules`, {
        method: 'POST',
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          name,
          cron: '*/30 * * * *',
          time_zone: 'UTC',
          body: { agents: {}, input: 'Go on.', ...(cap === null ? {} : { max_cost_usd: cap }) },
        }),
      });
    }
    await sql(
      `update credential set paused_until = 'infinity', pause_reason = 'halted by the audit: a test'`,
    );
    const until = new Date(Date.now() + 3_600_000).toISOString();
    const { stdout } = await doctor({ COLUMNS: '200' }, '--at', until);
    expect(stdout).toMatch(/NEXT TICK +SCHEDULE +TICKS +AGENTS +CAP USD/);
    expect(stdout).toMatch(/ nightly +[23] +1 +2\.50 +- +- +sending under the key default is paused/);
    expect(stdout).toMatch(/ other +[23] +1 +- +- +- +sending/);
  });

  test('a time of the clock is the next such moment', () => {
    const now = new Date(2026, 4, 5, 22, 30);
    expect(readTime('03:00', now)).toEqual(new Date(2026, 4, 6, 3, 0));
    expect(readTime('23:15', now)).toEqual(new Date(2026, 4, 5, 23, 15));
    expect(readTime('22:30', now)).toEqual(new Date(2026, 4, 6, 22, 30));
    expect(readTime('2026-05-06T01:00:00Z', now)).toEqual(new Date('2026-05-06T01:00:00Z'));
  });

  test.each(['25:00', 'tonight', '3'])('%s is wrong usage', async (at) => {
    const { code, stderr } = await doctor({}, '--at', at);
    expect(stderr).toContain(`--at ${at} is no time. Give one such as 03:00`);
    expect(code).toBe(2);
  });
});
