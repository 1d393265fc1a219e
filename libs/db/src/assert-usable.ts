import { NightshiftError } from '@nightshift/agent-core';
import { checkPostgres, explainPostgres } from '@nightshift/services';
import { sql } from 'kysely';
import type { Database } from './connect.ts';
import { assertGranted } from './grants.ts';
import { assertMigrated } from './migrations/migrate.ts';

/**
 * Resolves when a program may start on the database at `url`, of which `db` is a connection: it can be used, its role has
 * its rights, it is migrated, and it keeps commits. Throws as `assertMigrated` does, and `database_unreachable` with the sentence
 * that the migrate step would end with; never a password.
 */
export async function assertUsable(db: Database, url: string): Promise<void> {
  await checkPostgres(url).catch((error: unknown) => {
    throw new NightshiftError('database_unreachable', (error as Error).message, { cause: error });
  });
  try {
    await assertGranted(db);
    await assertMigrated(db);
    await assertKeepsCommits(db);
  } catch (error) {
    throw explained(error, url);
  }
}

/**
 * Throws where a crash of the server could lose a commit that it has confirmed. `createPool` asks each session for
 * `synchronous_commit = on`; a pooler between may drop it, and then the default of role or database holds.
 */
async function assertKeepsCommits(db: Database): Promise<void> {
  const { rows } = await sql<{ role: string; setting: string }>`
    select current_user::text as role, current_setting('synchronous_commit') as setting`.execute(db);
  const [{ role, setting } = { role: '', setting: '' }] = rows;
  // The latter waits for standbys as well.
  if (setting === 'on' || setting === 'remote_apply') return;
  throw new NightshiftError(
    'database_unreachable',
    `Sessions have synchronous_commit = ${setting}, so that a crash of PostgreSQL may lose confirmed commits: something between, ` +
      `such as a pooler, drops the setting of the connection. Run: alter role "${role}" set synchronous_commit = on;`,
  );
}

/** An error of the database as one of the catalogue that says what to do; any other as it is. */
export function explained(error: unknown, url: string): unknown {
  const sentence = explainPostgres(error, url);
  return sentence === null ? error : new NightshiftError('database_unreachable', sentence, { cause: error });
}
