import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

const SPOOL_NAME = /^spool-(\d+)-/;

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Makes a fresh spool folder under `dataDir` and removes those that processes which no longer run left behind. */
export async function createSpoolDir(dataDir: string): Promise<string> {
  await mkdir(dataDir, { recursive: true });
  for (const name of await readdir(dataDir)) {
    const pid = SPOOL_NAME.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid)))
      await rm(join(dataDir, name), { recursive: true, force: true });
  }
  return mkdtemp(join(dataDir, `spool-${process.pid}-`));
}
