import { readFileSync } from 'node:fs';
import { NightshiftError } from '@nightshift/agent-core';
import { Migrator, type Migration, type MigrationProvider } from 'kysely/migration';
import { sql } from 'kysely';
import type { Database } from '../connect.ts';
import { explainDenied } from '../grants.ts';

/** The first migration. Databases of earlier development states have others in its place. */
const FIRST = '0001-initial';

/** All migrations by name, in order; each is an SQL file beside this module. */
export const MIGRATIONS: Readonly<Record<string, Migration>> = Object.fromEntries(
  [
    FIRST,
    '0002-night-shift',
    '0003-money',
    '0004-files',
    '0005-made-once',
    '0006-workers',
    '0007-edit-held-changes',
    '0008-sessions',
    '0009-drain-workers',
    '0010-tool-call-attempts',
    '0011-kept-cache-marks',
    '0012-tool-sources',
    '0013-secrets',
    '0014-tool-call-outputs',
    '0015-batch-tools',
    '0016-tool-kinds',
    '0017-mcp-servers',
    '0018-server-tools',
    '0019-tool-trials',
    '0020-tool-limits',
  ].map((name) => [name, { up: (db: Database) => runFile(db, name) }]),
);

async function runFile(db: Database, name: string): Promise<void> {
  await sql.raw(readFileSync(new URL(`./${name}.sql`, import.meta.url), 'utf8')).execute(db);
}

const provider: MigrationProvider = { getMigrations: () => Promise.resolve({ ...MIGRATIONS }) };

/** Maximum tries of a migration to get its locks, each as long as the connection's `lock_timeout`. */
const TRIES_MAX = 4;
const LOCK_TIMEOUT = '55P03';

/**
 * Migrates the database to this program's schema, and returns the names of the applied migrations. Simultaneous starters
 * are serialized by Kysely's advisory lock.
 * Throws: `database_from_future` and `database_from_past` like {@link assertMigrated}; `not_ready` with the names of the
 * programs to stop, and nothing changed, when others hold its locks, as an audit does for minutes; `database_unreachable`
 * with a missing grant.
 */
export async function migrateToLatest(db: Database): Promise<readonly string[]> {
  try {
    return await migrate(db);
  } catch (error) {
    throw await explainDenied(db, error);
  }
}

async function migrate(db: Database): Promise<readonly string[]> {
  await readApplied(db);
  for (let attempt = 1; ; attempt++) {
    const { error, results } = await new Migrator({ db, provider }).migrateToLatest();
    if (error === undefined) return (results ?? []).map((result) => result.migrationName);
    if ((error as { readonly code?: unknown }).code !== LOCK_TIMEOUT)
      throw error instanceof Error ? error : new Error('The migration failed.', { cause: error });
    if (attempt < TRIES_MAX) continue;
    throw new NightshiftError(
      'not_ready',
      `The migration timed out on locks of other programs. Stop them, or wait for their end, then migrate again: ${await readHolders(db)}.`,
      { cause: error },
    );
  }
}

/** Names the programs with an open transaction in this database, the oldest first. */
async function readHolders(db: Database): Promise<string> {
  const { rows } = await sql<{ name: string; pid: number; seconds: number }>`
    select coalesce(nullif(application_name, ''), 'a program without a name') as name, pid,
           extract(epoch from clock_timestamp() - xact_start)::int as seconds
      from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
     order by xact_start limit 5
  `.execute(db);
  const named = rows.map(
    ({ name, pid, seconds }) => `${name} (Postgres process ${pid}, in a transaction for ${seconds} s)`,
  );
  return named.length === 0 ? 'none any more' : named.join(', ');
}

/**
 * Checks that the database has exactly this program's migrations.
 * Throws: `database_from_future` when it is ahead, `not_ready` when it is behind, `database_from_past` when it is of an
 * earlier development state.
 */
export async function assertMigrated(db: Database): Promise<void> {
  const applied = await readApplied(db);
  const missing = Object.keys(MIGRATIONS).filter((name) => !applied.includes(name));
  if (missing.length > 0) {
    throw new NightshiftError(
      'not_ready',
      `The database lacks the migrations ${missing.join(', ')}: run the migrate step, node scripts/migrate.ts.`,
    );
  }
}

/** The applied migrations against those of this program. */
export interface MigrationState {
  /** Number of applied migrations. */
  readonly applied: number;
  readonly missing: readonly string[];
  /** Applied by another release. */
  readonly unknown: readonly string[];
}

/** Compares the applied migrations with those of this program; {@link assertMigrated} throws where this reports. */
export async function readMigrations(db: Database): Promise<MigrationState> {
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  const applied = rows.map(({ name }) => name);
  return {
    applied: applied.length,
    missing: Object.keys(MIGRATIONS).filter((name) => !applied.includes(name)),
    unknown: applied.filter((name) => !(name in MIGRATIONS)),
  };
}

/** Reads the names of the applied migrations. Throws: when they are not a prefix of {@link MIGRATIONS}. */
async function readApplied(db: Database): Promise<readonly string[]> {
  const { rows: tables } = await sql<{
    name: string | null;
  }>`select to_regclass('kysely_migration') as name`.execute(db);
  if (tables[0]?.name == null) return [];
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  const applied = rows.map((row) => row.name);
  if (applied.length > 0 && !applied.includes(FIRST)) {
    throw new NightshiftError(
      'database_from_past',
      'The database was made by an earlier development state of this program, which no migration brings up to date. ' +
        'Remove the embedded one with: npm start -- --fresh. In place of your own, name an empty one in DATABASE_URL.',
    );
  }
  const unknown = applied.filter((name) => !(name in MIGRATIONS));
  if (unknown.length > 0) {
    throw new NightshiftError(
      'database_from_future',
      `The database has the migrations ${unknown.join(', ')}, which this release does not know. Start the release that added them.`,
    );
  }
  return applied;
}
