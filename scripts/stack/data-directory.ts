import { accessSync, constants, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { holdDirectory } from '../../libs/services/src/index.ts';
import { given } from '../command-line.ts';

/** What the stack and the demo write there. Node and the lock of an install under way are not theirs. */
const WRITTEN = /^(pg|logs|simulator|worker-\d+|api-key|demo)$/;

/** What marks a directory in which something was started, however far the start came and whatever it was given from outside. */
const SIGNS = ['pg/password', 'pg/cluster/PG_VERSION', 'api-key', 'logs/simulator.log', 'logs/worker-1.log'];

/** The absolute path of DATA_DIR: programs of the stack work in another directory than who starts it. */
export function dataDirectory(): string {
  return resolve(given('DATA_DIR') ?? '.data');
}

/** Makes a directory, unless it is there already; throws an error that names DATA_DIR where it cannot be written to. */
export function makeInDataDirectory(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true });
    accessSync(directory, constants.W_OK);
  } catch (error) {
    throw new Error(
      `DATA_DIR cannot be used: ${(error as Error).message}. Set it to a directory that this user may write to.`,
      { cause: error },
    );
  }
}

/** Throws where {@link emptyDataDirectory} would remove what only by its name could come from an earlier start. */
export function refuseOthersDirectory(dataDir: string): void {
  if (!existsSync(dataDir) || SIGNS.some((sign) => existsSync(join(dataDir, sign)))) return;
  const names = readdirSync(dataDir).filter((name) => WRITTEN.test(name));
  if (names.length === 0) return;
  throw new Error(
    `DATA_DIR is ${dataDir}, where nothing seems to have been started: it has none of ${SIGNS.join(', ')}. ` +
      `Remove ${names.sort().join(', ')} yourself, if they may go, or set DATA_DIR to another directory.`,
  );
}

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
