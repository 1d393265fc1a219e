import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { holdDirectory } from '../../libs/services/src/index.ts';

/** What the stack and the demo write there. Node and the lock of an install under way are not theirs. */
const WRITTEN = /^(pg|logs|simulator|worker-\d+|api-key|demo)$/;

/**
 * Removes what earlier starts have left in `dataDir`, and nothing else that lies there.
 * @throws {DirectoryInUseError} when the database of a running service is among it; nothing is removed then.
 */
export function emptyDataDirectory(dataDir: string): void {
  if (!existsSync(dataDir)) return;
  const database = join(dataDir, 'pg');
  const release = existsSync(database) ? holdDirectory(database) : () => undefined;
  try {
    for (const name of readdirSync(dataDir))
      if (WRITTEN.test(name)) rmSync(join(dataDir, name), { recursive: true, force: true });
  } finally {
    release();
  }
}
