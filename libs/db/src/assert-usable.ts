import { NightshiftError } from '@nightshift/agent-core';
import { checkPostgres, explainPostgres } from '@nightshift/services';
import type { Database } from './connect.ts';
import { assertMigrated } from './migrations/migrate.ts';

/**
 * Resolves when a program may start on the database at `url`, of which `db` is a connection: it can be used, and is
 * migrated. Throws as `assertMigrated` does, and `database_unreachable` with the sentence that the migrate step would end
 * with; never a password.
 */
export async function assertUsable(db: Database, url: string): Promise<void> {
  await checkPostgres(url).catch((error: unknown) => {
    throw new NightshiftError('database_unreachable', (error as Error).message, { cause: error });
  });
  await assertMigrated(db).catch((error: unknown) => {
    throw explained(error, url);
  });
}

/** An error of the database as one of the catalogue that says what to do; any other as it is. */
export function explained(error: unknown, url: string): unknown {
  const sentence = explainPostgres(error, url);
  return sentence === null ? error : new NightshiftError('database_unreachable', sentence, { cause: error });
}
