import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { holdDirectory } from '../../libs/services/src/index.ts';
import { given } from '../command-line.ts';

/**
 * Names that the stack and the demo write. Node and the lock of an install belong to the bootstrap. `secrets-key` stays: a
 * database of DATABASE_URL, which is not removed, may hold secrets of it.
 */
const WRITTEN = /^(pg|logs|simulator|worker-\d+|api-key|api-url|demo)$/;

/** Marks of a directory with an earlier start, even an incomplete one. */
const SIGNS = [
  'pg/password',
  'pg/cluster/PG_VERSION',
  'api-key',
  'api-url',
  'logs/simulator.log',
  'logs/worker-1.log',
];

/** Returns the absolute path of DATA_DIR: the stack's programs have another working directory. */
export function dataDirectory(): string {
  return resolve(given('DATA_DIR') ?? '.data');
}

/** File with the address of the running API, which the command reads. */
const urlFileOf = (dataDir: string): string => join(dataDir, 'api-url');

/** Tells the command where the API listens. */
export function keepApiUrl(dataDir: string, url: string): void {
  writeFileSync(urlFileOf(dataDir), `${url}\n`);
}

/** Removes the address of an API that has ended, unless another start has written its own. */
export function forgetApiUrl(dataDir: string, url: string): void {
  const file = urlFileOf(dataDir);
  if (existsSync(file) && readFileSync(file, 'utf8').trim() === url) rmSync(file);
}

/** Makes a directory. Throws an error with DATA_DIR when it cannot be written to. */
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

/** Throws when {@link emptyDataDirectory} would remove files of another origin. */
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
 * Removes the files of earlier starts in `dataDir`, and no others.
 * Throws {@link DirectoryInUseError} when a service runs on its database; nothing is removed then.
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
