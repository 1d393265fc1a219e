import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createSpoolDir } from '../src/spool-dir.ts';

test('folders of ended processes are deleted, also with our pid; those of live processes stay', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'nightshift-spool-'));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const first = await createSpoolDir(dataDir);
  const living = `spool-${process.ppid}-living`;
  // Above the highest process id of Linux.
  for (const name of [living, `spool-${process.pid}-before`, 'spool-999999999-gone', 'notes'])
    await mkdir(join(dataDir, name));
  const second = await createSpoolDir(dataDir);
  expect((await readdir(dataDir)).sort()).toEqual(
    [basename(first), basename(second), living, 'notes'].sort(),
  );
});
