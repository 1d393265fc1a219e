import { createPool } from '@nightshift/services';
import { sql } from 'kysely';
import { Migrator, NO_MIGRATIONS } from 'kysely/migration';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  assertMigrated,
  connect,
  migrateToLatest,
  MIGRATIONS,
  readNow,
  type Database,
} from '../../src/index.ts';
import { openEmptyDatabase } from './empty-database.ts';

let empty: Awaited<ReturnType<typeof openEmptyDatabase>>;
const open: Database[] = [];

/** Simulates a program with its own pool on the database. */
function program(
  options: { readonly applicationName?: string; readonly lockTimeoutMs?: number } = {},
): Database {
  const db = connect(createPool({ url: empty.url, max: 2, applicationName: 'test', ...options }));
  open.push(db);
  return db;
}

beforeEach(async () => {
  empty = await openEmptyDatabase(inject('postgresUrl'));
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((db) => db.destroy()));
  await empty.drop();
});

const ALL = Object.keys(MIGRATIONS);

describe('migrating', () => {
  test('applies every migration once; a second call applies none', async () => {
    const db = program();
    await expect(assertMigrated(db)).rejects.toMatchObject({ code: 'not_ready' });
    expect(await migrateToLatest(db)).toEqual(ALL);
    expect(await migrateToLatest(db)).toEqual([]);
    await assertMigrated(db);
  });

  test('programs that start together apply every migration once in total', async () => {
    const applied = await Promise.all(Array.from({ length: 4 }, () => migrateToLatest(program())));
    expect(applied.flat()).toEqual(ALL);
  });

  test('waits for programs that hold its locks, and names them after four timeouts', async () => {
    const patient = program({ lockTimeoutMs: 5_000 });
    const provider = { getMigrations: () => Promise.resolve({ ...MIGRATIONS }) };
    // Creates Kysely's own tables and applies nothing.
    await new Migrator({ db: patient, provider }).migrateTo(NO_MIGRATIONS);
    const migrated = await program({ applicationName: 'some-audit' })
      .transaction()
      .execute(async (audit) => {
        await sql`lock table kysely_migration in share mode`.execute(audit);
        await expect(migrateToLatest(program({ lockTimeoutMs: 20 }))).rejects.toMatchObject({
          code: 'not_ready',
          message: expect.stringMatching(/Stop them.*: some-audit \(Postgres process \d+/),
        });
        return { later: migrateToLatest(patient) };
      });
    expect(await migrated.later).toEqual(ALL);
  });

  test('refuses a database of an earlier development state with the command that removes it', async () => {
    const db = program();
    await migrateToLatest(db);
    await sql`update kysely_migration set name = '0001_initial' where name = '0001-initial'`.execute(db);
    const refusal = { code: 'database_from_past', message: expect.stringContaining('npm start -- --fresh') };
    await expect(migrateToLatest(db)).rejects.toMatchObject(refusal);
    await expect(assertMigrated(db)).rejects.toMatchObject(refusal);
  });

  test('a database migrated by a later release is refused and left unchanged', async () => {
    const db = program();
    await migrateToLatest(db);
    const insertion = { name: '9999_later', timestamp: '2027-01-01T00:00:00Z' };
    await db
      .$extendTables<{ kysely_migration: typeof insertion }>()
      .insertInto('kysely_migration')
      .values(insertion)
      .execute();
    await expect(migrateToLatest(db)).rejects.toMatchObject({ code: 'database_from_future' });
    await expect(assertMigrated(db)).rejects.toMatchObject({ code: 'database_from_future' });
    const { count } = await db
      .$extendTables<{ kysely_migration: typeof insertion }>()
      .selectFrom('kysely_migration')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    expect(count).toBe(ALL.length + 1);
  });
});

describe('app_now(), the one clock', () => {
  test('is the time of the server, and moves on within a transaction', async () => {
    const db = program();
    await migrateToLatest(db);
    const before = Date.now();
    const [first, second] = await db
      .transaction()
      .execute(async (trx) => [await readNow(trx), await readNow(trx)] as const);
    expect(first.getTime()).toBeGreaterThanOrEqual(before - 1);
    expect(second.getTime()).toBeGreaterThanOrEqual(first.getTime());
    expect(second.getTime()).toBeLessThanOrEqual(Date.now() + 1);
  });

  test('follows nightshift.now where it is set, also in defaults, and only there', async () => {
    const db = program();
    await migrateToLatest(db);
    const instant = new Date('2031-02-03T04:05:06.789Z');
    const client = createPool({ url: empty.url, max: 1, applicationName: 'virtual' });
    try {
      await client.query(`set nightshift.now = '${instant.toISOString()}'`);
      const { rows: now } = await client.query<{ now: Date }>('select app_now() as now');
      expect(now[0]?.now).toEqual(instant);
      const { rows } = await client.query<{ created_at: Date }>(
        `insert into project (id, name) values (gen_random_uuid(), 'p') returning created_at`,
      );
      expect(rows[0]?.created_at).toEqual(instant);
      await client.query(`set nightshift.now = ''`);
      const { rows: reset } = await client.query<{ now: Date }>('select app_now() as now');
      expect(Math.abs((reset[0]?.now.getTime() ?? 0) - Date.now())).toBeLessThan(60_000);
    } finally {
      await client.end();
    }
    expect(Math.abs((await readNow(db)).getTime() - Date.now())).toBeLessThan(60_000);
  });
});
