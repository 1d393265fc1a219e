import { randomInt, randomUUID } from 'node:crypto';
import { constants, copyFile, link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 43 characters of base 62 hold 256 bits. */
const KEY_LENGTH = 43;

/** A key, and whether it was made just now. */
export interface KeptKey {
  readonly key: string;
  readonly path: string;
  readonly isNew: boolean;
}

/**
 * The key kept in `<dataDir>/api-key`, readable by its owner alone; made at the first call. Two processes that start together
 * end with the same key.
 */
export async function keepApiKey(dataDir: string): Promise<KeptKey> {
  const path = join(dataDir, 'api-key');
  await mkdir(dataDir, { recursive: true });
  const kept = await readKey(path);
  if (kept !== null) return { key: kept, path, isNew: false };
  const key = `ns_${Array.from({ length: KEY_LENGTH }, () => BASE62.charAt(randomInt(BASE62.length))).join('')}`;
  // Whole before it has its name: whoever finds it there finds all of it.
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeFile(draft, `${key}\n`, { mode: 0o600, flag: 'wx' });
    // Some file systems have no links: there it is copied, and who starts at that very moment may find it empty.
    await link(draft, path).catch(() => copyFile(draft, path, constants.COPYFILE_EXCL));
    return { key, path, isNew: true };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  const others = await readKey(path);
  if (others === null)
    throw new Error(`${path} is there and holds nothing: remove it, or bring back what it links to.`);
  return { key: others, path, isNew: false };
}

/** The key of a file; null where there is none. */
async function readKey(path: string): Promise<string | null> {
  let key: string;
  try {
    key = (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  // What readConfig() takes of NIGHTSHIFT_API_KEY: a header can carry it.
  if (/^[!-~]{16,}$/.test(key)) return key;
  throw new Error(`${path} holds no API key: delete it, and the next start makes a new one.`);
}
