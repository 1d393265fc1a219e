import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { processIdentity } from './process-identity.ts';

/** Raised when a living process holds the directory. */
export class DirectoryInUseError extends Error {
  override readonly name = 'DirectoryInUseError';
  readonly pid: number;

  constructor(directory: string, pid: number) {
    super(`${directory} is in use by process ${pid}. Stop that process first, or choose another directory.`);
    this.pid = pid;
  }
}

/**
 * Takes `directory` for this process and returns the function that gives it back. A lock whose process has died (its
 * pid may have been reused since) is taken over; at most one of several starters gets it.
 * @throws {DirectoryInUseError} when a living process, this one included, holds it.
 */
export function holdDirectory(directory: string): () => void {
  const lockFile = join(directory, 'owner.lock');
  const mine = `${processIdentity(process.pid) ?? process.pid}\n${randomUUID()}\n`;
  const draft = join(directory, `owner.${randomUUID()}.tmp`);
  writeFileSync(draft, mine, { mode: 0o600 });
  try {
    // A hard link appears with its content already in it, so that nobody ever reads half a lock.
    while (!linked(draft, lockFile)) takeOverIfDead(directory, lockFile);
  } finally {
    rmSync(draft, { force: true });
  }
  return () => {
    if (readOrUndefined(lockFile) === mine) rmSync(lockFile, { force: true });
  };
}

/** The living process that holds `directory`; null when there is none. */
export function directoryOwner(directory: string): number | null {
  const identity = readOrUndefined(join(directory, 'owner.lock'))?.split('\n', 1)[0] ?? '';
  const pid = Number.parseInt(identity, 10);
  return processIdentity(pid) === identity ? pid : null;
}

function takeOverIfDead(directory: string, lockFile: string): void {
  const held = readOrUndefined(lockFile);
  if (held === undefined) return;
  const identity = held.split('\n', 1)[0] ?? '';
  const pid = Number.parseInt(identity, 10);
  if (processIdentity(pid) === identity) throw new DirectoryInUseError(directory, pid);
  // Moved aside under a name of our own: a second starter that judged the same dead lock cannot remove a fresh one
  // unnoticed, because what was moved is compared with what was judged.
  const aside = join(directory, `owner.${randomUUID()}.dead`);
  try {
    renameSync(lockFile, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  if (readOrUndefined(aside) !== held) linked(aside, lockFile);
  rmSync(aside, { force: true });
}

function linked(existing: string, path: string): boolean {
  try {
    linkSync(existing, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function readOrUndefined(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
