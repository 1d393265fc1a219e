import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { openProofDatabase, type ProofDatabase } from '../../proof/database.ts';
import { simulateSchedules } from '../../proof/schedules.ts';

// Seconds on an idle machine.
vi.setConfig({ testTimeout: 180_000 });

let database: ProofDatabase;
beforeAll(async () => {
  database = await openProofDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

// `npm run simulate` takes every zone.
test('each tick around a change of a zone makes one batch, while workers are killed', async () => {
  const { violations, ticks, kills } = await simulateSchedules(database, { seed: 2, zones: 3 });
  expect(violations).toEqual([]);
  expect(ticks).toBeGreaterThan(150);
  expect(kills).toBeGreaterThan(10);
});

test('a seed gives the same trace every time', async () => {
  const first = await simulateSchedules(database, { seed: 5, zones: 1 });
  expect(await simulateSchedules(database, { seed: 5, zones: 1 })).toEqual(first);
});
