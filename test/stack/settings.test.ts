import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { readConfig as readApiConfig } from '../../apps/api/src/config.ts';
import { readConfig as readWorkerConfig } from '../../apps/worker/src/config.ts';
import {
  apiSettings,
  connectionsOf,
  hostToAsk,
  providerWithKey,
  WORKER_POOL_DEFAULT,
  workerSettings,
} from '../../scripts/stack/settings.ts';

test("an operator's worker variables reach the workers of npm start, without empty variables and the stack's own", () => {
  expect(
    workerSettings({
      REQUESTS_MAX: '500',
      LEASE_MS: '',
      DATABASE_URL: 'postgres://elsewhere/db',
      WORKER_NAME: 'mine',
      ANTHROPIC_BASE_URL: 'https://gateway.example',
      PATH: '/bin',
    }),
  ).toEqual({ REQUESTS_MAX: '500' });
});

test("an operator's API variables reach the API of npm start, including the workers' prices", () => {
  const [REQUESTS_MAX, SECRETS_KEYS_OLD] = ['500', '00'.repeat(32)];
  const env = {
    HOST: '0.0.0.0',
    LOG_LEVEL: 'warn',
    PRICES_FILE: 'prices.json',
    REQUESTS_MAX,
    DATA_DIR: 'elsewhere',
    PORT: '80',
    NIGHTSHIFT_API_KEY: 'a_key_that_the_stack_hands_on',
    SECRETS_KEY: 'a_key_that_the_stack_hands_on',
    SECRETS_KEYS_OLD,
    ANTHROPIC_API_KEY: 'a key for workers only',
  };
  // Absolute: a stack started in another folder refers to a file there.
  const PRICES_FILE = resolve('prices.json');
  expect(apiSettings(env)).toEqual({ HOST: '0.0.0.0', LOG_LEVEL: 'warn', PRICES_FILE, SECRETS_KEYS_OLD });
  expect(workerSettings(env)).toEqual({ LOG_LEVEL: 'warn', PRICES_FILE, REQUESTS_MAX, SECRETS_KEYS_OLD });
});

test('a gateway in front of the provider is used with a key', () => {
  const gateway = { ANTHROPIC_API_KEY: 'key', ANTHROPIC_BASE_URL: 'https://gateway.example' };
  expect(workerSettings(gateway)).toEqual({ ANTHROPIC_BASE_URL: 'https://gateway.example' });
});

test.each([
  [undefined, 'the Anthropic API'],
  ['', 'the Anthropic API'],
  [
    'https://gateway.example/tenant/secret?key=secret',
    'the provider at gateway.example (ANTHROPIC_BASE_URL)',
  ],
  ['http://me:secret@127.0.0.1:8080', 'the provider at 127.0.0.1:8080 (ANTHROPIC_BASE_URL)'],
  ['gateway.example/secret', 'the provider that ANTHROPIC_BASE_URL names'],
  ['me:secret@gateway.example', 'the provider that ANTHROPIC_BASE_URL names'],
])('with a key and the base URL %j the message names %s and no secret', (ANTHROPIC_BASE_URL, said) => {
  expect(providerWithKey({ ANTHROPIC_API_KEY: 'key', ANTHROPIC_BASE_URL })).toBe(said);
});

test.each(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])(
  'LOG_LEVEL=%s is accepted by the API and by workers',
  (LOG_LEVEL) => {
    const env = { LOG_LEVEL, DATABASE_URL: 'postgres://here/db', ANTHROPIC_API_KEY: 'key' };
    expect([readApiConfig(env).logLevel, readWorkerConfig(env).log_level]).toEqual([LOG_LEVEL, LOG_LEVEL]);
  },
);

test('every worker needs its pool, and its bell and listener if the queue is on Postgres', () => {
  const more = (env: Record<string, string>, queueUrl: string | undefined): number =>
    connectionsOf(2, env, queueUrl) - connectionsOf(1, env, queueUrl);
  expect(more({}, 'none')).toBe(9);
  expect(more({ DATABASE_POOL_MAX: '20' }, 'redis://here:6379')).toBe(21);
  expect(more({}, undefined)).toBe(12);
  const { database_pool_max } = readWorkerConfig({
    DATABASE_URL: 'postgres://h/d',
    ANTHROPIC_API_KEY: 'key',
  });
  expect(WORKER_POOL_DEFAULT).toBe(database_pool_max);
});

test.each([
  [undefined, '127.0.0.1'],
  ['0.0.0.0', '127.0.0.1'],
  ['::', '127.0.0.1'],
  ['192.168.1.5', '192.168.1.5'],
  ['::1', '[::1]'],
  ['night.example', 'night.example'],
])('an API that listens on %s is called at %s', (host, asked) => {
  expect(hostToAsk(host)).toBe(asked);
});
