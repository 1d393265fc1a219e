import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { findRedisServer, startRedisServer } from '@nightshift/services';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';

let database: TestDatabase;
let dataDir = '';
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  dataDir = await mkdtemp(join(tmpdir(), 'nightshift-api-'));
});
afterAll(async () => {
  await database.close();
  await rm(dataDir, { recursive: true, force: true });
});

interface Started {
  readonly child: ChildProcess;
  readonly exited: Promise<unknown[]>;
  readonly output: () => string;
}

function start(env: Record<string, string>): Started {
  const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env;
  const child = spawn(process.execPath, [new URL('../src/main.ts', import.meta.url).pathname], {
    env: { PATH, NODE_COMPILE_CACHE, PORT: '0', DATA_DIR: dataDir, LOG_LEVEL: 'info', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      child.emit('output');
    });
  }
  return { child, exited: once(child, 'exit'), output: () => output };
}

async function untilOutput({ child, output }: Started, pattern: RegExp): Promise<RegExpExecArray> {
  for (;;) {
    const match = pattern.exec(output());
    if (match !== null) return match;
    await once(child, 'output');
  }
}

test('the process reports its new key, serves, logs a line per request without secrets, and ends cleanly on SIGTERM', async () => {
  const first = start({ DATABASE_URL: database.url });
  const [, url = ''] = await untilOutput(first, /Nightshift API at (http:\S+), model: simulator/);
  const [, path = ''] = await untilOutput(first, /An API key was created: it is in ([^"]+)/);
  expect(path).toBe(join(dataDir, 'api-key'));
  const key = (await readFile(path, 'utf8')).trim();
  expect(first.output()).not.toContain(key);

  const answer = await fetch(`${url}/v1/agents/?name=private-query`, {
    headers: { authorization: `Bearer ${key}` },
  });
  expect([answer.status, await answer.json()]).toEqual([200, []]);
  await untilOutput(first, /"path":"\/v1\/agents\/"/);
  const lines = first
    .output()
    .split('\n')
    .filter((line) => line.includes('"path":"/v1/agents/"'));
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0]!)).toMatchObject({
    method: 'GET',
    status: 200,
    route: '/v1/agents',
    request_id: expect.any(String),
  });
  expect(lines[0]).not.toMatch(/private-query|ns_/);

  // Neither a client that disconnected during its body nor a silent connection may delay the end.
  const port = Number(new URL(url).port);
  const gone = connect(port, '127.0.0.1');
  gone.write(`POST /v1/blocks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n`);
  gone.write('content-type: application/json\r\ncontent-length: 100\r\n\r\n{');
  await once(gone, 'connect');
  gone.resetAndDestroy();
  await untilOutput(first, /client_gone/);
  const silent = connect(port, '127.0.0.1');
  silent.on('error', () => undefined);
  await once(silent, 'connect');
  first.child.kill('SIGTERM');
  expect(await first.exited).toEqual([0, null]);
  for (const line of first.output().trim().split('\n')) expect(JSON.parse(line)).toBeTypeOf('object');
  silent.destroy();

  const second = start({ DATABASE_URL: database.url, LOG_LEVEL: 'error' });
  await untilOutput(second, /Nightshift API at/);
  expect(second.output()).not.toContain(key);
  second.child.kill('SIGTERM');
  expect(await second.exited).toEqual([0, null]);
});

test('an audit has its own connection, without the statement timeout', async () => {
  const key = 'ns_key_of_the_audit_test';
  const started = start({ DATABASE_URL: database.url, NIGHTSHIFT_API_KEY: key });
  const [, url = ''] = await untilOutput(started, /Nightshift API at (http:\S+),/);
  const locker = await database.pool.connect();
  try {
    await locker.query('begin; lock table step in access exclusive mode');
    const asked = fetch(`${url}/v1/admin/audit`, { headers: { authorization: `Bearer ${key}` } });
    await expect
      .poll(async () => {
        const waiting = `select application_name from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`;
        return (await database.pool.query(waiting)).rows;
      })
      .toEqual([{ application_name: 'nightshift-api-audit' }]);
    await locker.query('rollback');
    expect(await (await asked).json()).toMatchObject({ ok: true, violations: [] });
  } finally {
    locker.release();
    started.child.kill('SIGTERM');
  }
  expect(await started.exited).toEqual([0, null]);
});

test.each([
  [{ DATABASE_URL: '' }, /DATABASE_URL is required/],
  [{ NIGHTSHIFT_TYPO: 'x' }, /NIGHTSHIFT_TYPO is not known/],
])("a wrong environment ends the process with the variable's name and no stack: %o", async (env, message) => {
  const started = start({ DATABASE_URL: database.url, ...env });
  expect((await started.exited)[0]).toBe(1);
  expect(started.output()).toMatch(message);
  expect(started.output()).not.toMatch(/\.ts:\d/);
});

test("an unusable database or queue ends the process with the migrate step's sentence", async () => {
  const empty = await openTestDatabase(inject('postgresUrl'));
  await empty.pool.query('delete from kysely_migration');
  const role = `bare_${process.pid}`;
  await empty.pool.query(`create role ${role} login password 'of-bare'`);
  const changed = (base: string, change: Partial<URL>): string => Object.assign(new URL(base), change).href;
  const cases: [Record<string, string>, RegExp][] = [
    [{ DATABASE_URL: changed(database.url, { password: 'hidden' }) }, /Correct the user or the password/],
    [{ DATABASE_URL: changed(database.url, { port: '1' }) }, /ECONNREFUSED.* Start that server/],
    [{ DATABASE_URL: changed(database.url, { pathname: '/none' }) }, /Create that database/],
    [{ DATABASE_URL: empty.url }, /lacks the migrations .*node scripts\/migrate\.ts/],
    [
      { DATABASE_URL: changed(empty.url, { username: role, password: 'of-bare' }) },
      /The role "bare_\d+" may not SELECT.* Run as their owner: grant select/,
    ],
    [{ DATABASE_URL: database.url, QUEUE_URL: 'loft://:hidden@pigeon' }, /QUEUE_URL is not usable/],
  ];
  try {
    for (const [env, sentence] of cases) {
      const started = start(env);
      expect(await started.exited).toEqual([1, null]);
      expect(started.output()).toMatch(sentence);
      expect(started.output()).toMatch(/^[^\n]+\n$/);
      expect(started.output()).not.toMatch(/hidden|of-bare|\.ts:\d/);
    }
  } finally {
    await empty.close();
    await database.pool.query(`drop role ${role}`);
  }
});

test('an evicting Redis ends the process with a sentence', async ({ skip }) => {
  if (findRedisServer() === null) skip('no redis-server on PATH');
  const redis = await startRedisServer({ dir: dataDir, settings: { 'maxmemory-policy': 'allkeys-lru' } });
  try {
    const started = start({ DATABASE_URL: database.url, QUEUE_URL: redis.url });
    expect(await started.exited).toEqual([1, null]);
    expect(started.output()).toMatch(/^[^\n]*CONFIG SET maxmemory-policy noeviction[^\n]*\n$/);
  } finally {
    await redis.stop();
  }
});

test('an unusable address is reported by the names of its settings, in one line', async () => {
  const listening = start({ DATABASE_URL: database.url });
  const [, port = ''] = await untilOutput(listening, /Nightshift API at http:\S+:(\d+),/);
  for (const [env, why] of [
    [{ HOST: '256.1.1.1' }, 'HOST 256.1.1.1, PORT 0: getaddrinfo E'],
    [{ PORT: port }, `HOST 127.0.0.1, PORT ${port}: listen EADDRINUSE`],
  ] as const) {
    const refused = start({ DATABASE_URL: database.url, LOG_LEVEL: 'silent', ...env });
    expect(await refused.exited).toEqual([1, null]);
    expect(refused.output().trim()).toMatch(new RegExp(`^The API cannot listen at ${why}.*$`));
  }
  listening.child.kill('SIGTERM');
  expect(await listening.exited).toEqual([0, null]);
});
