import { NightshiftError } from '@nightshift/agent-core';
import { Migrator, type Migration, type MigrationProvider } from 'kysely/migration';
import { sql } from 'kysely';
import type { Database } from '../connect.ts';
import { explainDenied } from '../grants.ts';
import * as initial from './0001-initial.ts';
import * as toolRules from './0002-tool-rules.ts';
import * as memory from './0003-memory.ts';
import * as context from './0004-context.ts';
import * as money from './0005-money.ts';
import * as counts from './0006-counts.ts';
import * as agentResults from './0007-agent-results.ts';
import * as hotPath from './0008-hot-path.ts';
import * as holders from './0009-holders.ts';
import * as ends from './0010-ends.ts';
import * as leavers from './0011-leavers.ts';
import * as refusals from './0012-refusals.ts';
import * as retries from './0013-retries.ts';
import * as lapses from './0014-lapses.ts';
import * as answerers from './0015-answerers.ts';
import * as shownLabels from './0016-shown-labels.ts';
import * as idle from './0017-idle.ts';
import * as untried from './0018-untried.ts';
import * as resets from './0019-resets.ts';
import * as openBatches from './0020-open.ts';
import * as clocks from './0021-clocks.ts';
import * as unusable from './0023-unusable.ts';
import * as bullmq from './0027-bullmq.ts';

/** Every migration, by name, in order. Imported, not globbed: type stripping and bundling both see them. */
export const MIGRATIONS: Readonly<Record<string, Migration>> = {
  '0001_initial': initial,
  '0002_tool_rules': toolRules,
  '0003_memory': memory,
  '0004_context': context,
  '0005_money': money,
  '0006_counts': counts,
  '0007_agent_results': agentResults,
  '0008_hot_path': hotPath,
  '0009_holders': holders,
  '0010_ends': ends,
  '0011_leavers': leavers,
  '0012_refusals': refusals,
  '0013_retries': retries,
  '0014_lapses': lapses,
  '0015_answerers': answerers,
  '0016_shown_labels': shownLabels,
  '0017_idle': idle,
  '0018_untried': untried,
  '0019_resets': resets,
  '0020_open': openBatches,
  '0021_clocks': clocks,
  '0023_unusable': unusable,
  '0027_bullmq': bullmq,
};

const provider: MigrationProvider = { getMigrations: () => Promise.resolve({ ...MIGRATIONS }) };

/** Times that a migration waits for its locks, each for as long as the connection's `lock_timeout`. */
const TRIES_MAX = 4;
const LOCK_TIMEOUT = '55P03';

/**
 * Brings the database to this program's schema, under Kysely's advisory lock, so that several starters may call it
 * at once. Throws `database_from_future` when the database knows migrations that this program does not, and `not_ready`,
 * naming who to stop, when others hold the locks that it needs: an audit holds them for minutes. Nothing is changed then.
 * A right that is missing throws `database_unreachable` with its grant. Returns the names that were applied now.
 */
export async function migrateToLatest(db: Database): Promise<readonly string[]> {
  try {
    return await migrate(db);
  } catch (error) {
    throw await explainDenied(db, error);
  }
}

async function migrate(db: Database): Promise<readonly string[]> {
  await refuseFutureDatabase(db);
  for (let attempt = 1; ; attempt++) {
    const { error, results } = await new Migrator({ db, provider }).migrateToLatest();
    if (error === undefined) return (results ?? []).map((result) => result.migrationName);
    if ((error as { readonly code?: unknown }).code !== LOCK_TIMEOUT)
      throw error instanceof Error ? error : new Error('The migration failed.', { cause: error });
    if (attempt < TRIES_MAX) continue;
    throw new NightshiftError(
      'not_ready',
      `The migration waits for locks that others hold. Stop these, or wait for their end, then migrate again: ${await readHolders(db)}.`,
      { cause: error },
    );
  }
}

/** Who has a transaction open in this database, the oldest first. */
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
  return named.length === 0 ? 'nobody any more' : named.join(', ');
}

/** Throws `database_from_future` when the database is ahead of this program, `not_ready` when it is behind. */
export async function assertMigrated(db: Database): Promise<void> {
  const applied = await refuseFutureDatabase(db);
  const missing = Object.keys(MIGRATIONS).filter((name) => !applied.includes(name));
  if (missing.length > 0) {
    throw new NightshiftError(
      'not_ready',
      `The database lacks the migrations ${missing.join(', ')}: run the migrate step, node scripts/migrate.ts.`,
    );
  }
}

async function refuseFutureDatabase(db: Database): Promise<readonly string[]> {
  const { rows: tables } = await sql<{
    name: string | null;
  }>`select to_regclass('kysely_migration') as name`.execute(db);
  if (tables[0]?.name == null) return [];
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  const applied = rows.map((row) => row.name);
  const unknown = applied.filter((name) => !(name in MIGRATIONS));
  if (unknown.length > 0) {
    throw new NightshiftError(
      'database_from_future',
      `The database has the migrations ${unknown.join(', ')}, which this release does not know.`,
    );
  }
  return applied;
}
