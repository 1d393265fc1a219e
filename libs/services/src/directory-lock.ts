import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { processIdentity, processPlace } from './process-identity.ts';

/** How often the holder of a lock, and the watchdog of its server, touch the file. */
export const BEAT_MS = 2_000;
/** A lock that nobody has touched for so long has no holder left. */
const SILENCE_MS = 10_000;

export interface DirectoryOwner {
  readonly pid: number;
  /** The place in which `pid` counts, when that is not ours: a container or another machine. */
  readonly elsewhere?: string;
}

/** Raised when a living process holds the directory. */
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
 * Takes `directory` for this process and returns the function that gives it back. A lock whose process has died (its
 * pid may have been reused since) is taken over; at most one of several starters gets it.
 *
 * What holds it in another container or on another machine cannot be seen from here. So whoever holds a lock touches it
 * every few seconds, and one from elsewhere is watched, for `silenceMs` at most, which this waits for: it is dead when
 * nobody touches it.
 * @throws {DirectoryInUseError} when a living process, this one included, holds it.
 */
export function holdDirectory(directory: string, silenceMs = SILENCE_MS): () => void {
  const lockFile = join(directory, 'owner.lock');
  const identity = processIdentity(process.pid) ?? process.pid;
  const mine = `${identity}\n${randomUUID()}\n${processPlace()}\n`;
  const draft = join(directory, `owner.${randomUUID()}.tmp`);
  writeFileSync(draft, mine, { mode: 0o600 });
  try {
    // A hard link appears with its content already in it, so that nobody ever reads half a lock.
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

/** The living process that holds `directory`; null when there is none. Waits as `holdDirectory` does. */
export function directoryOwner(directory: string, silenceMs = SILENCE_MS): DirectoryOwner | null {
  const lockFile = join(directory, 'owner.lock');
  const held = readLock(lockFile);
  return held === undefined ? null : livingOwner(lockFile, held, silenceMs);
}

/** Shows that whoever wrote `mine` into the lock still needs it; a lock of somebody else is left alone. */
export function touchLock(lockFile: string, mine: string): void {
  try {
    const now = new Date();
    if (readLock(lockFile) === mine) utimesSync(lockFile, now, now);
  } catch {
    // The disk is full or away: its other users have more to say about that.
  }
}

function livingOwner(lockFile: string, held: string, silenceMs: number): DirectoryOwner | null {
  const [identity = '', , place = ''] = held.split('\n');
  const pid = Number.parseInt(identity, 10);
  if (place === '' || place === processPlace()) return processIdentity(pid) === identity ? { pid } : null;
  return isTouched(lockFile, silenceMs) ? { pid, elsewhere: place } : null;
}

/** Two looks are compared, and not a look with our clock: that of another machine may be another. */
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
  // Moved aside under a name of our own: a second starter that judged the same dead lock cannot remove a fresh one
  // unnoticed, because what was moved is compared with what was judged.
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

/** What is written in a lock; undefined when there is none. */
export function readLock(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
