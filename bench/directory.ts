import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DirectoryInUseError, holdDirectory } from '../libs/services/src/index.ts';

/** What a bench writes there, and leaves behind when it is killed. */
const WRITTEN = /^(pg|redis|product|bench_\d+|fsync-probe)$/;

/**
 * Takes `dir` for this bench, removes what an earlier one has left there, and returns the function that gives it back.
 * @throws when another bench is at work there; nothing is removed then.
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

/** Removes what may still be written to: servers of a killed bench end a moment after it. */
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
