import { afterEach, expect, test, vi } from 'vitest';
import type { TestProject } from 'vitest/node';
import setup from './global-setup.ts';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

/** Sets up a run under these variables, ends it, and returns the server that was provided and what was said. */
async function setUp(env: Readonly<Record<string, string>>): Promise<{ url: unknown; said: string }> {
  const known = { TEST_DATABASE_URL: '', NIGHTSHIFT_USE_DOCKER: '', DOCKER_HOST: '', ...env };
  for (const [name, value] of Object.entries(known)) vi.stubEnv(name, value);
  const log = vi.spyOn(console, 'log').mockReturnValue();
  const provide = vi.fn();
  const end = await setup({ provide, config: {} } as unknown as TestProject);
  await end();
  return { url: provide.mock.lastCall?.[1], said: log.mock.calls.join('\n') };
}

test('a server that is named is used as it is', async () => {
  const url = 'postgres://127.0.0.1:1/none';
  expect(await setUp({ TEST_DATABASE_URL: url, NIGHTSHIFT_USE_DOCKER: '1' })).toEqual({ url, said: '' });
});

test('without a variable it is the embedded one, and nothing is said', async () => {
  expect(await setUp({})).toEqual({ url: expect.stringMatching(/^postgres:.*127\.0\.0\.1/), said: '' });
});

test('a container that cannot start is replaced, with the reason', async () => {
  const { url, said } = await setUp({ NIGHTSHIFT_USE_DOCKER: '1', DOCKER_HOST: 'unix:///nowhere.sock' });
  expect(url).toMatch(/^postgres:.*127\.0\.0\.1/);
  expect(said).toMatch(/embedded PostgreSQL.*NIGHTSHIFT_USE_DOCKER is set but no Docker engine answers/);
});
