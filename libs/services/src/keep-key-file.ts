import { randomUUID } from 'node:crypto';
import { constants, copyFile, link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/** A key and whether it is new. */
export interface KeptKey {
  readonly key: string;
  readonly path: string;
  readonly isNew: boolean;
}

/** A file with a key in a line. */
export interface KeyFile {
  readonly path: string;
  readonly make: () => string;
  readonly isKey: (text: string) => boolean;
  /** Describes a file without a key, such as `holds no API key: delete it`. */
  readonly refusal: string;
}

/**
 * Reads the key in a file, or creates it, readable by its owner only. Concurrent first starts agree on a key.
 * Throws: for a file without a key, or one that cannot be read.
 */
export async function keepKeyFile(file: KeyFile): Promise<KeptKey> {
  const { path } = file;
  await mkdir(dirname(path), { recursive: true });
  const kept = await readKey(file);
  if (kept !== null) return { key: kept, path, isNew: false };
  const key = file.make();
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
  const others = await readKey(file);
  if (others === null)
    throw new Error(`${path} exists but cannot be read: remove it, or restore the target of the link.`);
  return { key: others, path, isNew: false };
}

/** Reads the key of a file; null if there is no file. */
async function readKey({ path, isKey, refusal }: KeyFile): Promise<string | null> {
  let key: string;
  try {
    key = (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  if (isKey(key)) return key;
  throw new Error(`${path} ${refusal}`);
}
