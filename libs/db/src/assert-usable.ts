import { NightshiftError } from '@nightshift/agent-core';
import { checkPostgres, explainPostgres } from '@nightshift/services';
import { sql } from 'kysely';
import type { Database } from './connect.ts';
import { assertGranted } from './grants.ts';
import { assertMigrated } from './migrations/migrate.ts';

/**
 * Checks that a program may start on the database at `url`: it accepts connections, rights are granted, it is migrated, and
 * it keeps commits.
 * Throws: like `assertMigrated`; `database_unreachable` with the sentence that the migrate step would end with, never a
 * password.
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
 * Checks that a server crash cannot lose a confirmed commit. `createPool` asks each session for `synchronous_commit = on`,
 * but a pooler may drop the setting; then the default of the role or database holds.
 */
async function assertKeepsCommits(db: Database): Promise<void> {
  const { rows } = await sql<{ role: string; setting: string }>`
    select current_user::text as role, current_setting('synchronous_commit') as setting`.execute(db);
  const [{ role, setting } = { role: '', setting: '' }] = rows;
  // `remote_apply` waits for standbys as well.
  if (setting === 'on' || setting === 'remote_apply') return;
  throw new NightshiftError(
    'database_unreachable',
    `Sessions have synchronous_commit = ${setting}, so that a crash of PostgreSQL may lose confirmed commits: something between, ` +
      `such as a pooler, drops the setting of the connection. Run: alter role "${role}" set synchronous_commit = on;`,
  );
}

/** Converts a database error to an error of the catalogue with the next step; returns any other error unchanged. */
export function explained(error: unknown, url: string): unknown {
  const sentence = explainPostgres(error, url);
  return sentence === null ? error : new NightshiftError('database_unreachable', sentence, { cause: error });
}
