import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

// Preloaded into the workers of the chaos run: their log's disk is full for a quarter of the time.
const PERIOD_MS = 20_000;
const FULL_MS = 5_000;
const STDOUT = 1;

type Done = (error: NodeJS.ErrnoException | null, written: number) => void;

const write = fs.write as (fd: number, ...rest: unknown[]) => void;
const writeWhereThereIsRoom = (fd: number, ...rest: unknown[]): void => {
  if (fd === STDOUT && Date.now() % PERIOD_MS < FULL_MS) {
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    setImmediate(rest.at(-1) as Done, full, 0);
  } else write(fd, ...rest);
};
Object.assign(fs, { write: writeWhereThereIsRoom });
syncBuiltinESMExports();
