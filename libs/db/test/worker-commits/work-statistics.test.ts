import { NO_USAGE, type WorkSample } from '@nightshift/agent-core';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { commitWorkSamples, forgetWorkStatistics, readWorkStatistics } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

let database: TestDatabase;
beforeEach(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterEach(() => database.close());

const sample = (keys: readonly string[], rest: Partial<WorkSample> = {}): WorkSample => ({
  keys,
  step_number: 1,
  usage: { ...NO_USAGE, input_tokens: 10, output_tokens: 4, cache_read_tokens: 30 },
  ended: true,
  ...rest,
});

test('samples add up over commits, and a key without samples is left out', async () => {
  const { db } = database;
  await commitWorkSamples(db, []);
  expect(await readWorkStatistics(db, [])).toEqual(new Map());
  await commitWorkSamples(db, [sample(['a', 'b']), sample(['a'], { step_number: 2 })]);
  await commitWorkSamples(db, [sample(['a'])]);
  const found = await readWorkStatistics(db, ['a', 'b', 'c', 'a']);
  expect([...found.keys()].sort()).toEqual(['a', 'b']);
  expect(found.get('a')).toMatchObject({
    answers: 3,
    runs: 3,
    prompt_tokens: 120,
    output_tokens: 12,
    cache_read_tokens: 90,
    outputs: Object.assign(
      Array.from({ length: 9 }, () => 0),
      { 8: 3 },
    ),
  });
  expect(found.get('a')?.steps.map(({ answers }) => answers)).toEqual([2, 1]);
});

test('simultaneous commits of the same keys neither wait for each other in a circle nor lose counts', async () => {
  const { db } = database;
  const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
  await Promise.all(
    Array.from({ length: 8 }, (_, turn) =>
      commitWorkSamples(
        db,
        (turn % 2 === 0 ? keys : keys.toReversed()).map((key) => sample([key])),
      ),
    ),
  );
  const found = await readWorkStatistics(db, keys);
  expect([...found.values()].map(({ answers }) => answers)).toEqual(keys.map(() => 8));
});

test('counts of a key with many answers are halved, and an unused key is forgotten', async () => {
  const { db, pool } = database;
  await commitWorkSamples(db, [sample(['many']), sample(['few']), sample(['old'])]);
  await pool.query(`update work_statistic set answers = 50001, ended = 3 where key = 'many'`);
  await pool.query(`update work_statistic set used_on = now() - interval '91 days' where key = 'old'`);
  await forgetWorkStatistics(db);
  const found = await readWorkStatistics(db, ['many', 'few', 'old']);
  expect(found.get('many')).toMatchObject({
    answers: 25_000,
    runs: 1,
    steps: [{ answers: 25_000, ended: 1 }],
  });
  expect(found.get('few')).toMatchObject({ answers: 1 });
  expect(found.has('old')).toBe(false);
});
