import { afterEach, expect, test, vi } from 'vitest';
import type { TestProject } from 'vitest/node';
import setup from './global-setup.ts';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

/** Sets up and ends a run with these variables. Returns the provided server and the output. */
async function setUp(env: Readonly<Record<string, string>>): Promise<{ url: unknown; said: string }> {
  const known = { TEST_DATABASE_URL: '', NIGHTSHIFT_USE_DOCKER: '', DOCKER_HOST: '', ...env };
  for (const [name, value] of Object.entries(known)) vi.stubEnv(name, value);
  const log = vi.spyOn(console, 'log').mockReturnValue();
  const provide = vi.fn();
  const end = await setup({ provide, config: {} } as unknown as TestProject);
  await end();
  return { url: provide.mock.lastCall?.[1], said: log.mock.calls.join('\n') };
}

test('a named server is used unchanged', async () => {
  const url = 'postgres://127.0.0.1:1/none';
  expect(await setUp({ TEST_DATABASE_URL: url, NIGHTSHIFT_USE_DOCKER: '1' })).toEqual({ url, said: '' });
});

test('by default the embedded server is used, silently', async () => {
  expect(await setUp({})).toEqual({ url: expect.stringMatching(/^postgres:.*127\.0\.0\.1/), said: '' });
});

test('a requested container that is unavailable is reported with the reason', async () => {
  const { url, said } = await setUp({ NIGHTSHIFT_USE_DOCKER: '1', DOCKER_HOST: 'unix:///nowhere.sock' });
  expect(url).toMatch(/^postgres:.*127\.0\.0\.1/);
  expect(said).toMatch(/embedded PostgreSQL.*NIGHTSHIFT_USE_DOCKER is set but no Docker engine answers/);
});
