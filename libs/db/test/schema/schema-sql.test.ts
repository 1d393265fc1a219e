import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { describeSchema } from '../../../../scripts/schema/describe-schema.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { openEmptyDatabase } from './empty-database.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

const committed = (): string => readFileSync(new URL('../../schema.sql', import.meta.url), 'utf8');

test('the committed schema.sql is the result of the migrations', async () => {
  expect(committed(), 'out of date: npm run dump-schema').toBe(await describeSchema(database.pool));
});

test('schema.sql is complete: in an empty database it creates the same schema', async () => {
  const empty = await openEmptyDatabase(inject('postgresUrl'));
  const client = new pg.Client({ connectionString: empty.url });
  await client.connect();
  try {
    await client.query(committed());
    expect(await describeSchema(client as unknown as pg.Pool)).toBe(committed());
  } finally {
    await client.end();
    await empty.drop();
  }
});
