import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';

const SPOOL_NAME = /^spool-(\d+)-/;

/** Names of the folders that this process has made. */
const own = new Set<string>();

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
    const pid = Number(SPOOL_NAME.exec(name)?.[1]);
    if (Number.isNaN(pid)) continue;
    // Our own number was a predecessor's, as in a container that was started again.
    if (pid === process.pid ? !own.has(name) : !isAlive(pid))
      await rm(join(dataDir, name), { recursive: true, force: true });
  }
  const made = await mkdtemp(join(dataDir, `spool-${process.pid}-`));
  own.add(basename(made));
  return made;
}
