import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { connect } from '../connect.ts';
import { openTestDatabase, type TestDatabase } from './test-database.ts';

/** A database between two tests. */
interface Spare {
  readonly database: TestDatabase;
  /** The schema, as {@link readSchema} describes it. */
  readonly schema: string;
  /** The rows of a migrated database, by table. */
  readonly rows: Readonly<Record<string, object[]>>;
}

/** By the URL of the server. */
const spares = new Map<string, Spare[]>();

/**
 * Lends a database as a migration leaves it, for one test. `close` empties it for the next test of this process: its connections
 * are warm, and a clone is not. A database with a changed schema or a busy connection is dropped instead.
 */
export async function lendTestDatabase(serverUrl: string): Promise<TestDatabase> {
  const spare = spares.get(serverUrl)?.pop() ?? (await openSpare(serverUrl));
  const { pool, url } = spare.database;
  const { lent, end } = lend(pool);
  return {
    db: connect(lent),
    pool: lent,
    url,
    close: async () => {
      end();
      if (await empty(spare).catch(() => false))
        spares.set(serverUrl, [...(spares.get(serverUrl) ?? []), spare]);
      else await spare.database.close();
    },
  };
}

async function openSpare(serverUrl: string): Promise<Spare> {
  const database = await openTestDatabase(serverUrl);
  const rows: Record<string, object[]> = {};
  for (const table of await readWrittenTables(database.pool)) {
    const { rows: found } = await database.pool.query<{ row: object }>(
      `select to_jsonb(t) as row from ${table} t`,
    );
    rows[table] = found.map(({ row }) => row);
  }
  return { database, schema: await readSchema(database.pool), rows };
}

/** Wraps a pool, so that code that outlives its test gets errors, and no access to the next test. */
function lend(pool: pg.Pool): { readonly lent: pg.Pool; readonly end: () => void } {
  let ended = false;
  const methods = pool as unknown as Readonly<Record<'connect' | 'query', (...args: unknown[]) => unknown>>;
  const whileLent =
    (name: keyof typeof methods) =>
    (...args: unknown[]): unknown =>
      ended ? Promise.reject(new Error('The test of this database has ended.')) : methods[name](...args);
  const lent = Object.create(pool, {
    connect: { value: whileLent('connect') },
    query: { value: whileLent('query') },
    end: { value: () => Promise.resolve((ended = true)) },
  }) as pg.Pool;
  return { lent, end: () => (ended = true) };
}

/** Restores the rows of a migration. Returns whether the database is as a migration leaves it. */
async function empty({ database: { pool }, schema, rows }: Spare): Promise<boolean> {
  if (pool.idleCount < pool.totalCount || (await readSchema(pool)) !== schema) return false;
  const { rows: others } = await pool.query(
    `select from pg_stat_activity where datname = current_database() and application_name <> 'test'`,
  );
  if (others.length > 0) return false;
  const tables = await readWrittenTables(pool);
  const restored = Object.entries(rows).map(
    ([table, each]) =>
      `insert into ${table} select * from jsonb_populate_recordset(null::${table}, ${quoted(each)})`,
  );
  await pool.query(
    [
      // Without triggers and foreign keys.
      'set session_replication_role = replica',
      ...tables.map((table) => `delete from ${table}`),
      ...restored,
      'reset session_replication_role',
    ].join(';'),
  );
  // Removes the dead rows: the order of rows without `order by` is that of a new table.
  await pool.query(`vacuum ${tables.join(', ')}`);
  return true;
}

/** Quotes JSON as a literal, with a tag that it does not contain. */
function quoted(value: unknown): string {
  const tag = `$q${randomBytes(8).toString('hex')}$`;
  return `${tag}${JSON.stringify(value)}${tag}`;
}

/** Reads the names of the tables with blocks on disk. */
async function readWrittenTables(pool: pg.Pool): Promise<readonly string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
      where relkind = 'r' and relnamespace = 'public'::regnamespace and pg_relation_size(oid) > 0`,
  );
  return rows.map(({ name }) => name);
}

/** Describes the schema and its settings: another value after any change. */
async function readSchema(pool: pg.Pool): Promise<string> {
  const catalogues = [
    ...['class', 'attribute', 'attrdef', 'constraint', 'index', 'proc', 'trigger', 'type', 'namespace'],
    ...['policy', 'rewrite', 'event_trigger', 'extension'],
  ];
  const parts = catalogues.map(
    (name) => `(select count(*) || ':' || coalesce(sum(xmin::text::int8), 0) from pg_${name})`,
  );
  const { rows } = await pool.query<{ schema: string }>(
    `select concat_ws(' ', ${parts.join(', ')},
       (select count(*) from pg_db_role_setting
         where setdatabase = (select oid from pg_database where datname = current_database()))) as schema`,
  );
  return rows[0]?.schema ?? '';
}
