import { expect, test } from 'vitest';
import { createShutdown } from '../src/index.ts';

test('a repeat within a second is a duplicate; a later request ends at once', () => {
  let now = 5;
  const shutdown = createShutdown(() => now);
  expect(shutdown.isRequested()).toBe(false);
  expect(shutdown.request()).toBe('first');
  expect(shutdown.isRequested()).toBe(true);
  now += 1_000;
  expect(shutdown.request()).toBe('again');
  now += 1;
  expect(shutdown.request()).toBe('at once');
});
