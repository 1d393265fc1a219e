import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildServer } from '../src/index.ts';
import { API_KEY, openApi, type TestApi } from './api.ts';

const INDEX = '<!doctype html><title>Nightshift</title>';
const SCRIPT = '/assets/index-1a2b3c4d.js';

let api: TestApi;
let directory: string;
let served: ReturnType<typeof buildServer>;
let unbuilt: ReturnType<typeof buildServer>;

beforeAll(async () => {
  api = await openApi();
  directory = mkdtempSync(join(tmpdir(), 'nightshift-dashboard-'));
  mkdirSync(join(directory, 'assets'));
  writeFileSync(join(directory, 'index.html'), INDEX);
  writeFileSync(join(directory, SCRIPT), 'export {};');
  writeFileSync(join(directory, 'icon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
  const server = (dashboardDir: string): ReturnType<typeof buildServer> =>
    buildServer({
      db: api.database.db,
      bell: { ring: async () => undefined },
      apiKey: API_KEY,
      model: 'simulator',
      dashboardDir,
    });
  served = server(directory);
  unbuilt = server(join(directory, 'none'));
});
afterAll(async () => {
  await served.close();
  await unbuilt.close();
  await api.close();
  rmSync(directory, { recursive: true, force: true });
});

test('a hashed file is kept for ever', async () => {
  const { statusCode, headers } = await served.inject(SCRIPT);
  expect(statusCode).toBe(200);
  expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
  expect(headers['content-type']).toMatch(/javascript/);
});

test('a file without a hash is asked for again', async () => {
  expect((await served.inject('/icon.svg')).headers['cache-control']).toBe('no-cache');
});

describe.each([
  '/',
  '/batches',
  '/batches/new',
  '/batches/job-01890000-0000-7000-8000-000000000000?state=failed',
  '/runs/x',
  '/review/x',
  '/memories/x',
  '/blocks/x?revision=3',
  '/schedules/new',
  '/workers',
  '/settings',
])('a load of %s', (path) => {
  test('shows the page', async () => {
    const { statusCode, headers, body } = await served.inject(path);
    expect([statusCode, body]).toEqual([200, INDEX]);
    expect(headers['content-type']).toMatch(/^text\/html/);
  });

  test('is not cached', async () => {
    const { headers } = await served.inject(path);
    expect(headers['cache-control'] ?? 'no-cache').not.toMatch(/max-age|immutable|public/);
  });

  test('allows scripts and requests of our own alone', async () => {
    const policy = String((await served.inject(path)).headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toContain('unsafe');
  });
});

test.each(['/v1/nothing', '/nothing', '/assets/nothing.js'])('%s is a JSON 404', async (url) => {
  const { statusCode, headers, body } = await served.inject({
    url,
    headers: { authorization: `Bearer ${API_KEY}` },
  });
  expect(statusCode).toBe(404);
  expect(headers['content-type']).toMatch(/json/);
  expect(JSON.parse(body)).toMatchObject({ code: 'unknown_path' });
});

test('without the built files the page says how to build them, and the API works', async () => {
  const { statusCode, body } = await unbuilt.inject('/');
  expect([statusCode, body]).toEqual([404, expect.stringContaining('npm run build-dashboard')]);
  const agents = await unbuilt.inject({ url: '/v1/agents', headers: { authorization: `Bearer ${API_KEY}` } });
  expect(agents.statusCode).toBe(200);
});
