import { randomInt, randomUUID } from 'node:crypto';
import { constants, copyFile, link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 43 characters of base 62 hold 256 bits. */
const KEY_LENGTH = 43;

/** An API key and whether it is new. */
export interface KeptKey {
  readonly key: string;
  readonly path: string;
  readonly isNew: boolean;
}

/** Reads the key in `<dataDir>/api-key`, or creates it, readable by its owner only. Concurrent first starts agree on a key. */
export async function keepApiKey(dataDir: string): Promise<KeptKey> {
  const path = join(dataDir, 'api-key');
  await mkdir(dataDir, { recursive: true });
  const kept = await readKey(path);
  if (kept !== null) return { key: kept, path, isNew: false };
  const key = `ns_${Array.from({ length: KEY_LENGTH }, () => BASE62.charAt(randomInt(BASE62.length))).join('')}`;
  // Write a draft and link it, so that readers never see a partial key.
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeFile(draft, `${key}\n`, { mode: 0o600, flag: 'wx' });
    // Some file systems have no links: copy instead; a concurrent start may then read an empty file.
    await link(draft, path).catch(() => copyFile(draft, path, constants.COPYFILE_EXCL));
    return { key, path, isNew: true };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  const others = await readKey(path);
  if (others === null)
    throw new Error(`${path} exists but cannot be read: remove it, or restore the target of the link.`);
  return { key: others, path, isNew: false };
}

/** Reads the key from a file; null if there is no file. */
async function readKey(path: string): Promise<string | null> {
  let key: string;
  try {
    key = (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  // Same rule as for NIGHTSHIFT_API_KEY: a header must be able to carry it.
  if (/^[!-~]{16,}$/.test(key)) return key;
  throw new Error(`${path} holds no API key: delete it; the next start creates a new key.`);
}
