import { createPool } from '@nightshift/services';
import { sql } from 'kysely';
import { Migrator } from 'kysely/migration';
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

/** A program of its own: its own pool on the database. */
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
  test('applies every migration once; a second time applies none', async () => {
    const db = program();
    await expect(assertMigrated(db)).rejects.toMatchObject({ code: 'not_ready' });
    expect(await migrateToLatest(db)).toEqual(ALL);
    expect(await migrateToLatest(db)).toEqual([]);
    await assertMigrated(db);
  });

  test('programs that start together apply every migration once between them', async () => {
    const applied = await Promise.all(Array.from({ length: 4 }, () => migrateToLatest(program())));
    expect(applied.flat()).toEqual(ALL);
  });

  test('waits for those who hold its locks, and names them when they hold them for too long', async () => {
    const patient = program({ lockTimeoutMs: 5_000 });
    const provider = { getMigrations: () => Promise.resolve({ ...MIGRATIONS }) };
    // From one on that alters a table which an audit reads.
    const from = ALL.indexOf('0016_shown_labels');
    await new Migrator({ db: patient, provider }).migrateTo(ALL[from - 1]!);
    const migrated = await program({ applicationName: 'some-audit' })
      .transaction()
      .execute(async (audit) => {
        await sql`lock table kysely_migration, run, step, batch, provider_batch, run_chunk, credential in access share mode`.execute(
          audit,
        );
        await expect(migrateToLatest(program({ lockTimeoutMs: 20 }))).rejects.toMatchObject({
          code: 'not_ready',
          message: expect.stringMatching(/Stop these.*: some-audit \(Postgres process \d+/),
        });
        return { later: migrateToLatest(patient) };
      });
    expect(await migrated.later).toEqual(ALL.slice(from));
  });

  test('a database that a later release has migrated is refused and left as it is', async () => {
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

test('a database of the release before keeps the deadlines of its open runs, and asks for none of an ended one', async () => {
  const db = program();
  const before = Object.entries(MIGRATIONS).filter(([name]) => name < '0010');
  const { error } = await new Migrator({
    db,
    provider: { getMigrations: () => Promise.resolve(Object.fromEntries(before)) },
  }).migrateToLatest();
  expect(error).toBeUndefined();
  await sql`
    insert into run (id, project_id, batch_id, agent_id, conversation_id, definition_id, ordinal, state, stop_reason, max_steps,
                     deadline_at, first_seq, last_seq, started_at, ended_at)
    select ('01900000-0000-7000-8000-00000' || place || '000000')::uuid, p, p, p, p, p, place, state, reason, 1,
           deadline_at::timestamptz, 1, 1, now(), case when reason is not null then now() end
      from gen_random_uuid() as p,
           (values (1, 'ready', null, '2030-01-01Z'), (2, 'ready', null, null), (3, 'completed', 'end_turn', '2030-01-01Z'))
             as r(place, state, reason, deadline_at)`.execute(db);
  expect(await migrateToLatest(db)).toEqual(ALL.slice(before.length));
  const runs = await db.selectFrom('run').select('overdue_from').orderBy('ordinal').execute();
  expect(runs.map((run) => run.overdue_from)).toEqual([new Date('2030-01-01'), null, null]);
});

describe('app_now(), the one clock', () => {
  test('is the time of the server, going on within a transaction', async () => {
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

  test('follows nightshift.now where it is set, also in defaults, and nowhere else', async () => {
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
