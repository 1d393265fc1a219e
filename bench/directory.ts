import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DirectoryInUseError, holdDirectory } from '../libs/services/src/index.ts';

/** Names that a bench writes, and that a killed bench leaves behind. */
const WRITTEN = /^(pg|redis|product|cost-provider|cost-worker\.log|bench_\d+|fsync-probe)$/;

/**
 * Locks `dir` for this bench, removes an earlier bench's files, and returns the function that releases the
 * lock.
 * Throws when another bench holds the directory; nothing is removed then.
 */
export function takeDirectory(dir: string): () => void {
  mkdirSync(dir, { recursive: true });
  const release = held(dir);
  try {
    for (const name of readdirSync(dir)) if (WRITTEN.test(name)) removeDirectory(join(dir, name));
  } catch (error) {
    release();
    throw error;
  }
  return release;
}

/** Removes a directory that a dying server may still write to. */
export function removeDirectory(dir: string): void {
  rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

function held(dir: string): () => void {
  try {
    return holdDirectory(dir);
  } catch (error) {
    if (!(error instanceof DirectoryInUseError)) throw error;
    throw new Error(
      `Another bench, process ${error.pid}, has its servers in ${dir}: wait until it has ended, or end it.`,
      { cause: error },
    );
  }
}
