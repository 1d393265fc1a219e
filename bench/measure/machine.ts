/** Describes the machine of a measurement. */
import { execFileSync } from 'node:child_process';
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { median } from './statistics.ts';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memory_gib: number;
  readonly node: string;
  readonly postgres: string;
  /** Median time of a synced 8 KB write, in microseconds: the price of a commit. */
  readonly fsync_us: number;
  readonly commit: string;
}

export function describeMachine(dir: string, postgres: string): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memory_gib: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    postgres,
    fsync_us: Math.round(fsyncUs(dir)),
    commit: commitOf(),
  };
}

function fsyncUs(dir: string): number {
  const path = join(dir, 'fsync-probe');
  const file = openSync(path, 'w');
  const page = Buffer.alloc(8_192, 1);
  const times: number[] = [];
  for (let index = 0; index < 200; index++) {
    const start = performance.now();
    writeSync(file, page, 0, page.length, (index % 16) * page.length);
    fdatasyncSync(file);
    times.push((performance.now() - start) * 1000);
  }
  closeSync(file);
  rmSync(path);
  return median(times);
}

/** Returns the checked-out commit, with a `+` when the tree differs from it. */
function commitOf(): string {
  const git = (...args: readonly string[]): string =>
    execFileSync('git', [...args], {
      cwd: import.meta.dirname,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  try {
    return git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '-uno') === '' ? '' : '+');
  } catch {
    return 'unknown';
  }
}
