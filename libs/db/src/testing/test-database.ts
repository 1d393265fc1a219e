import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { createPool } from '@nightshift/services';
import pg from 'pg';
import { connect, type Database } from '../connect.ts';
import { migrateToLatest } from '../migrations/migrate.ts';

/** A migrated database for one test file. */
export interface TestDatabase {
  readonly db: Database;
  readonly pool: pg.Pool;
  readonly url: string;
  /** Closes every connection and drops the database. */
  close(): Promise<void>;
}

/**
 * Clones the migrated template database, creating it first if the server has none for the present migrations. `serverUrl`
 * names any database of a server with the right to create databases.
 */
export async function openTestDatabase(serverUrl: string): Promise<TestDatabase> {
  const template = await ensureTemplate(serverUrl);
  // The parent is the test run, which drops the databases that its processes leave.
  const name = `t_${process.ppid}_${randomBytes(8).toString('hex')}`;
  await onServer(serverUrl, (client) => client.query(`create database ${name} template ${template}`));
  const url = urlOf(serverUrl, name);
  const pool = createPool({ url, max: 8, applicationName: 'test' });
  const db = connect(pool);
  return {
    db,
    pool,
    url,
    close: async () => {
      await db.destroy();
      await onServer(serverUrl, (client) => client.query(`drop database ${name} with (force)`));
    },
  };
}

async function ensureTemplate(serverUrl: string): Promise<string> {
  const name = `template_${migrationsHash()}`;
  await onServer(serverUrl, async (client) => {
    // Only one creator at a time, because test files start together.
    await client.query('select pg_advisory_lock(7201)');
    const { rowCount } = await client.query(
      'select 1 from pg_database where datname = $1 and datistemplate',
      [name],
    );
    if (rowCount !== 0) return;
    await client.query(`drop database if exists ${name} with (force)`);
    await client.query(`create database ${name}`);
    const pool = createPool({ url: urlOf(serverUrl, name), max: 2, applicationName: 'template' });
    const db = connect(pool);
    try {
      await migrateToLatest(db);
    } finally {
      await db.destroy();
    }
    await client.query(`alter database ${name} is_template true allow_connections false`);
  });
  return name;
}

function migrationsHash(): string {
  const folder = new URL('../migrations/', import.meta.url);
  const hash = createHash('sha256');
  for (const file of readdirSync(folder).sort()) hash.update(readFileSync(new URL(file, folder)));
  return hash.digest('hex').slice(0, 16);
}

function urlOf(serverUrl: string, database: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
}

async function onServer(serverUrl: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl });
  client.on('error', () => undefined);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
