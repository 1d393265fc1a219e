import { createServer as createHttpServer, type Server } from 'node:http';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import {
  checkPostgres,
  checkRedis,
  dockerEngineAnswers,
  findFreePort,
  providePostgres,
} from '../src/index.ts';
import { chooseServiceSource } from '../src/docker.ts';
import { safeUrl } from '../src/safe-url.ts';

const url = inject('postgresUrl');

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-services-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

function changed(change: (url: URL) => void): string {
  const copy = new URL(url);
  change(copy);
  return copy.href;
}

describe('the source of PostgreSQL', () => {
  const request = { hasUrl: false, wantsDocker: false, engineAnswers: false, durable: false };

  test.each([
    ['a named server wins', { hasUrl: true, wantsDocker: true, engineAnswers: true }, 'external'],
    ['without a request it is embedded', {}, 'embedded'],
    ['an engine is not used without a request', { engineAnswers: true }, 'embedded'],
    ['a container is used when wanted and possible', { wantsDocker: true, engineAnswers: true }, 'docker'],
    ['without an engine it is embedded', { wantsDocker: true }, 'embedded'],
    [
      'data to keep is not put in a container',
      { wantsDocker: true, engineAnswers: true, durable: true },
      'embedded',
    ],
  ])('%s', (_, more, source) => {
    expect(chooseServiceSource({ ...request, ...more }).source).toBe(source);
  });

  test('an unmet request is explained', () => {
    expect(chooseServiceSource({ ...request, wantsDocker: true }).reason).toMatch(/no Docker engine answers/);
    expect(
      chooseServiceSource({ ...request, wantsDocker: true, engineAnswers: true, durable: true }).reason,
    ).toMatch(/are deleted/);
  });

  test('a Docker engine is detected by its ping, on a socket or over TCP', async () => {
    const engine = createHttpServer((request, response) => {
      response.statusCode = request.url === '/_ping' ? 200 : 404;
      response.end('OK');
    });
    const listening = async (server: Server, where: string | number): Promise<void> => {
      server.listen(where);
      await once(server, 'listening');
    };
    const socket = join(newDirectory(), 'docker.sock');
    await listening(engine, socket);
    expect(await dockerEngineAnswers(`unix://${socket}`)).toBe(true);
    engine.close();
    expect(await dockerEngineAnswers(`unix://${socket}.none`)).toBe(false);
    const port = await findFreePort();
    expect(await dockerEngineAnswers(`tcp://127.0.0.1:${port}`)).toBe(false);
    await listening(engine, port);
    expect(await dockerEngineAnswers(`tcp://127.0.0.1:${port}`)).toBe(true);
    engine.close();
    expect(await dockerEngineAnswers('nonsense')).toBe(false);
  });

  test('a container is used with NIGHTSHIFT_USE_DOCKER=1 when an engine answers', async ({ skip }) => {
    const dockerHost = process.env.DOCKER_HOST || undefined;
    if (process.env.NIGHTSHIFT_USE_DOCKER !== '1' || !(await dockerEngineAnswers(dockerHost)))
      skip('NIGHTSHIFT_USE_DOCKER is not 1, or no Docker engine answers');
    const provided = await providePostgres({
      dataDir: newDirectory(),
      durable: false,
      useDocker: true,
      dockerHost,
    });
    try {
      expect(provided.source).toBe('docker');
      await checkPostgres(provided.url);
    } finally {
      await provided.stop();
    }
  }, 180_000);
});

describe('providing PostgreSQL', () => {
  test('the server of the user is checked, used and left running', async () => {
    const provided = await providePostgres({ databaseUrl: url, dataDir: '/nonexistent', durable: true });
    expect(provided).toMatchObject({ url, source: 'external' });
    expect(provided.description).not.toContain(new URL(url).password);
    await provided.stop();
    await checkPostgres(url);
  });

  test('without it the server is embedded, and ends with stop()', async () => {
    const provided = await providePostgres({ databaseUrl: '', dataDir: newDirectory(), durable: false });
    expect(provided.source).toBe('embedded');
    expect(provided.description).not.toContain(new URL(provided.url).password);
    await checkPostgres(provided.url);
    await provided.stop();
    await expect(checkPostgres(provided.url)).rejects.toThrow(/ECONNREFUSED/);
  });
});

describe('the error of an unusable server names it and the next step, without its password', () => {
  const password = 'd0-not-show-this';

  const withPassword = (given: string): string => {
    const copy = new URL(given);
    copy.password = password;
    return copy.href;
  };

  test.each([
    [
      'unknown host',
      withPassword(changed((u) => (u.hostname = 'no-such-host.invalid'))),
      /no-such-host.*(host|network)/,
    ],
    ['wrong password', withPassword(url), /password/],
    ['no such database', changed((u) => (u.pathname = '/no_such_database')), /Create that database/],
    ['another scheme', withPassword(url).replace(/^postgres/, 'mysql'), /must look like/],
    ['no URL at all', 'localhost', /must look like/],
    ['no password', changed((u) => (u.password = '')), /DATABASE_URL, .*SASL.*set it in DATABASE_URL/],
    [
      'a server without TLS',
      withPassword(changed((u) => (u.search = '?sslmode=verify-full'))),
      /DATABASE_URL, .*SSL.*Add sslmode=disable/,
    ],
    [
      'a URL that cannot be decoded',
      withPassword(url).replace('//postgres:', '//%ff:'),
      /DATABASE_URL, .*URI malformed.*as %25/,
    ],
  ])('%s', async (_, given, expected) => {
    const error = await checkPostgres(given).then(
      () => undefined,
      (reason: unknown) => reason as Error,
    );
    expect(error?.message).toMatch(expected);
    expect(error?.message).not.toContain(password);
    expect(error?.message).not.toContain(new URL(url).password);
  });

  test('a refused connection', async () => {
    const port = await findFreePort();
    await expect(checkPostgres(changed((u) => (u.port = `${port}`)))).rejects.toThrow(
      /ECONNREFUSED.*without DATABASE_URL/,
    );
  });

  test('an encoding that cannot hold every text', async () => {
    const admin = new pg.Client({ connectionString: url });
    await admin.connect();
    await admin.query(`create database latin encoding 'LATIN1' template template0`);
    try {
      await expect(checkPostgres(changed((u) => (u.pathname = '/latin')))).rejects.toThrow(/LATIN1.*UTF8/);
    } finally {
      await admin.query('drop database latin with (force)');
      await admin.end();
    }
  });
});

test('the host may stand in the query, as for a socket', async () => {
  const { username, password, hostname, port, pathname } = new URL(url);
  const place = `postgres://${username}:${password}@${pathname}?host=${hostname}&port=${port}`;
  await expect(checkPostgres(place)).resolves.toBeUndefined();
});

test('a safe URL shows neither user nor password nor query', () => {
  expect(safeUrl('postgres://me:secret@db.example:6432/app?password=other&sslmode=require')).toBe(
    'postgres://db.example:6432/app',
  );
  expect(safeUrl('postgres://me:se@cr@et@[::1]:6432/app')).toBe('postgres://[::1]:6432/app');
  expect(safeUrl('https://me:secret@gateway.example:8443/token/v1')).toBe('https://gateway.example:8443');
  expect(safeUrl('redis://:secret@localhost:6379/2')).toBe('redis://localhost:6379/2');
  expect(safeUrl('postgres://me:secret@/app?host=/var/run/postgresql')).toBe('postgres:///app');
  expect(safeUrl('secret')).toBe('(not a URL)');
});

/** Returns all texts with one typo: a character missing, doubled, replaced, or added. */
function typosOf(text: string): string[] {
  const slips = ['', ':', '/', '@', '?', '#', '%', '&', ' ', '=', '.', '\\', '"'];
  return [...text].flatMap((character, at) => {
    const [before, after] = [text.slice(0, at), text.slice(at + 1)];
    return slips.flatMap((slip) => [before + slip + after, before + slip + character + after]);
  });
}

test.each([
  'postgres://u:jzxwvk@host:5432/data',
  'postgresql://u:jzxwvk@host/data?sslmode=require',
  'postgres://u:jzxwvk@/data?host=/run',
  'redis://:jzxwvk@host:6379/2',
  'https://u:jzxwvk@host/path',
  'http://u:jzxwvk@host:3128',
])('no typo in %s shows any letter of its password', (given) => {
  const secret = /[jzxwvk]/;
  const shown = [
    given,
    ...typosOf(given),
    ...typosOf(given).flatMap((typo) => [` ${typo}`, typo.replace('//', '/')]),
  ];
  expect(shown.length).toBeGreaterThan(1_000);
  expect(shown.filter((typo) => secret.test(safeUrl(typo)))).toEqual([]);
});

test.each([
  'postgres:/u:S3CRET@h',
  'postgres:u:S3CRET@h/db',
  'postgres:///u:S3CRET@h',
  'postgres//u:S3CRET@h/db',
  'postgres://u:12/S3CRET@h/db',
  'postgres://u:S3CRET%@127.0.0.1/db',
  'u:S3CRET@h',
])('a DATABASE_URL that is misspelt, as %s, is refused without its password', async (given) => {
  const error: unknown = await checkPostgres(given).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(Error);
  expect((error as Error).message).not.toMatch(/S3CRET/);
});

test.each(['redis:/u:S3CRET@h', 'redis:u:S3CRET@h', 'redis://u:12/S3CRET@h', 'redis://u:S3CRET'])(
  'a Redis whose URL is misspelt, as %s, is refused without its password',
  async (given) => {
    const error: unknown = await checkRedis(given).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(Error);
    expect((error as Error).message).not.toMatch(/S3CRET/);
  },
);
