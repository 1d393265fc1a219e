import { expect, test } from 'vitest';
import { workerSettings } from '../../scripts/stack/settings.ts';

test('what an operator sets for workers reaches those of npm start, empty variables and those of the stack left out', () => {
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

test('a gateway in front of the provider is used with a key', () => {
  const gateway = { ANTHROPIC_API_KEY: 'key', ANTHROPIC_BASE_URL: 'https://gateway.example' };
  expect(workerSettings(gateway)).toEqual({ ANTHROPIC_BASE_URL: 'https://gateway.example' });
});
