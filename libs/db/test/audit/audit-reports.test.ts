import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { claimAudit, DEFAULT_PROJECT_ID, newId } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());
beforeEach(() => database.pool.query('delete from audit_report'));

/** Inserts an audit that began `ago` and took `took`; null: unfinished. */
async function audited(ago: string, took: string | null): Promise<void> {
  await database.pool.query(
    `insert into audit_report (id, project_id, started_at, finished_at, violations)
     values ($1, $2, app_now() - $3::interval, app_now() - $3::interval + $4::interval, '[]')`,
    [newId(), DEFAULT_PROJECT_ID, ago, took],
  );
}

const claimed = (): Promise<boolean> => claimAudit(database.db, DEFAULT_PROJECT_ID, newId(), 600_000);

test('an audit is due once per interval, whichever process asks', async () => {
  expect(await claimed()).toBe(true);
  expect(await claimed()).toBe(false);
  await database.pool.query(`update audit_report set started_at = started_at - interval '10 minutes'`);
  expect(await claimed()).toBe(true);
});

test('audits take at most a twentieth of the time, if that exceeds an interval', async () => {
  await audited('19 minutes', '1 minute');
  expect(await claimed()).toBe(false);
  await database.pool.query('delete from audit_report');
  await audited('21 minutes', '1 minute');
  expect(await claimed()).toBe(true);
});

test('an audit longer than an interval gets no second beside it, and an unfinished audit is replaced', async () => {
  await audited('5 hours', '5 minutes');
  await audited('14 minutes', null);
  expect(await claimed()).toBe(false);
  await database.pool.query(
    `update audit_report set started_at = started_at - interval '2 minutes' where finished_at is null`,
  );
  expect(await claimed()).toBe(true);
});

test('a clock change during an audit delays the next audit by a day at most', async () => {
  await audited('23 hours', '400 days');
  expect(await claimed()).toBe(false);
  await database.pool.query(`update audit_report set started_at = started_at - interval '2 hours'`);
  expect(await claimed()).toBe(true);
});

test('a clock set back during an audit delays nothing', async () => {
  await audited('11 minutes', '-1 hour');
  expect(await claimed()).toBe(true);
});
