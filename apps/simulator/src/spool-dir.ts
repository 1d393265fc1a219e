import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';

const SPOOL_NAME = /^spool-(\d+)-/;

/** Folders created by this process. */
const own = new Set<string>();

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Creates a spool folder under `dataDir` and deletes those of ended processes. */
export async function createSpoolDir(dataDir: string): Promise<string> {
  await mkdir(dataDir, { recursive: true });
  for (const name of await readdir(dataDir)) {
    const pid = Number(SPOOL_NAME.exec(name)?.[1]);
    if (Number.isNaN(pid)) continue;
    // An earlier process had our pid, as in a restarted container.
    if (pid === process.pid ? !own.has(name) : !isAlive(pid))
      await rm(join(dataDir, name), { recursive: true, force: true });
  }
  const made = await mkdtemp(join(dataDir, `spool-${process.pid}-`));
  own.add(basename(made));
  return made;
}
