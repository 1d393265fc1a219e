import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { processIdentity, processPlace } from './process-identity.ts';

/** Interval at which the holder of a lock, and the watchdog of its server, touch the file. Unit: ms. */
export const BEAT_MS = 2_000;
/** Age of the last touch at which a lock is stale. Unit: ms. */
const SILENCE_MS = 10_000;

export interface DirectoryOwner {
  readonly pid: number;
  /** The container or machine of `pid`, if it is not ours. */
  readonly elsewhere?: string;
}

export class DirectoryInUseError extends Error {
  override readonly name = 'DirectoryInUseError';
  readonly pid: number;

  constructor(directory: string, { pid, elsewhere }: DirectoryOwner) {
    super(
      elsewhere === undefined
        ? `${directory} is in use by process ${pid}. Stop that process first, or set DATA_DIR to another directory.`
        : `${directory} is in use from another container or machine: by process ${pid} of ${elsewhere}. ` +
            'Stop it there first, or set DATA_DIR to another directory.',
    );
    this.pid = pid;
  }
}

/**
 * Locks `directory` for this process and returns the function that unlocks it. The lock of a dead process is taken over, even
 * if its pid is in use again; of several starters at most one gets it.
 *
 * Processes in other containers or on other machines cannot be seen. Each holder therefore touches its lock every few
 * seconds, and a lock from elsewhere is stale when it is not touched for `silenceMs`, which this function waits for.
 * Throws: {@link DirectoryInUseError} when a living process, this one included, holds the lock.
 */
export function holdDirectory(directory: string, silenceMs = SILENCE_MS): () => void {
  const lockFile = join(directory, 'owner.lock');
  const identity = processIdentity(process.pid) ?? process.pid;
  const mine = `${identity}\n${randomUUID()}\n${processPlace()}\n`;
  const draft = join(directory, `owner.${randomUUID()}.tmp`);
  writeFileSync(draft, mine, { mode: 0o600 });
  try {
    // A hard link appears together with its content, so that no process reads half a lock.
    while (!linked(draft, lockFile)) takeOverIfDead(directory, lockFile, silenceMs);
  } finally {
    rmSync(draft, { force: true });
  }
  const beating = setInterval(() => touchLock(lockFile, mine), BEAT_MS).unref();
  return () => {
    clearInterval(beating);
    if (readLock(lockFile) === mine) rmSync(lockFile, { force: true });
  };
}

/** Returns the living process that holds `directory`, or null. Waits like `holdDirectory`. */
export function directoryOwner(directory: string, silenceMs = SILENCE_MS): DirectoryOwner | null {
  const lockFile = join(directory, 'owner.lock');
  const held = readLock(lockFile);
  return held === undefined ? null : livingOwner(lockFile, held, silenceMs);
}

/** Touches a lock that holds `mine`; a lock of another process is left alone. */
export function touchLock(lockFile: string, mine: string): void {
  try {
    const now = new Date();
    if (readLock(lockFile) === mine) utimesSync(lockFile, now, now);
  } catch {
    // The disk is full or away; its other users report that.
  }
}

function livingOwner(lockFile: string, held: string, silenceMs: number): DirectoryOwner | null {
  const [identity = '', , place = ''] = held.split('\n');
  const pid = Number.parseInt(identity, 10);
  if (place === '' || place === processPlace()) return processIdentity(pid) === identity ? { pid } : null;
  return isTouched(lockFile, silenceMs) ? { pid, elsewhere: place } : null;
}

/** Waits for a touch of the lock. It compares two times of the file, since the clocks of two machines may differ. */
function isTouched(lockFile: string, silenceMs: number): boolean {
  const touchedAt = (): number | undefined => statSync(lockFile, { throwIfNoEntry: false })?.mtimeMs;
  const first = touchedAt();
  const deadline = performance.now() + silenceMs;
  for (;;) {
    const last = touchedAt();
    if (last === undefined) return false;
    if (last !== first) return true;
    if (performance.now() > deadline) return false;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  }
}

function takeOverIfDead(directory: string, lockFile: string, silenceMs: number): void {
  const held = readLock(lockFile);
  if (held === undefined) return;
  const owner = livingOwner(lockFile, held, silenceMs);
  if (owner !== null) throw new DirectoryInUseError(directory, owner);
  // Renamed before it is deleted: another starter may have replaced the dead lock by its own, so the content is checked
  // again after the rename.
  const aside = join(directory, `owner.${randomUUID()}.dead`);
  try {
    renameSync(lockFile, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  if (readLock(aside) !== held) linked(aside, lockFile);
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

/** Reads the content of a lock; undefined without a lock. */
export function readLock(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
