import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DirectoryInUseError, holdDirectory } from '../../libs/services/src/index.ts';
import {
  emptyDataDirectory,
  makeInDataDirectory,
  refuseOthersDirectory,
} from '../../scripts/stack/data-directory.ts';

let dir: string;

/** Files of a machine that started with an old Node and ran everything. */
const FOREIGN = ['node', 'install.lock', 'bench', 'notes.txt', 'secrets-key'];
const OWN = ['pg', 'logs', 'simulator', 'demo', 'worker-1', 'worker-12', 'api-key', 'api-url'];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nightshift-data-'));
  for (const name of [...FOREIGN, ...OWN]) {
    if (name.includes('.txt') || name.includes('-key') || name.startsWith('api-'))
      writeFileSync(join(dir, name), 'text');
    else mkdirSync(join(dir, name, 'inner'), { recursive: true });
  }
});
afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

test('files of earlier starts are removed; the fetched Node and files of others stay', () => {
  emptyDataDirectory(dir);
  expect(readdirSync(dir).sort()).toEqual([...FOREIGN].sort());
});

test('the data of a running service stays complete, and its process is named', () => {
  const release = holdDirectory(join(dir, 'pg'));
  expect(() => emptyDataDirectory(dir)).toThrow(DirectoryInUseError);
  expect(() => emptyDataDirectory(dir)).toThrow(new RegExp(`in use by process ${process.pid}`));
  expect(readdirSync(dir).sort()).toEqual([...FOREIGN, ...OWN].sort());
  release();
});

test('a missing directory counts as empty', () => {
  expect(() => emptyDataDirectory(join(dir, 'none'))).not.toThrow();
});

test('a directory without a sign of a start is not emptied, whatever names it holds', () => {
  refuseOthersDirectory(dir);
  rmSync(join(dir, 'api-key'));
  refuseOthersDirectory(dir);
  rmSync(join(dir, 'api-url'));
  expect(() => refuseOthersDirectory(dir)).toThrow(
    /where nothing seems to have been started: .* Remove demo, logs, pg, simulator, worker-1, worker-12 yourself/,
  );
  for (const sign of ['pg/cluster/PG_VERSION', 'pg/password', 'logs/worker-1.log', 'logs/simulator.log']) {
    const file = join(dir, sign);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, '');
    refuseOthersDirectory(dir);
    rmSync(file);
    expect(() => refuseOthersDirectory(dir)).toThrow();
  }
});

test('without files to remove, nothing is refused', () => {
  for (const name of OWN) rmSync(join(dir, name), { recursive: true });
  expect(() => refuseOthersDirectory(dir)).not.toThrow();
  expect(() => refuseOthersDirectory(join(dir, 'none'))).not.toThrow();
});

test.each(['notes.txt', 'notes.txt/below'])(
  'an unusable directory (%s) is refused by the name of its variable',
  (name) => {
    expect(() => makeInDataDirectory(join(dir, name))).toThrow(
      /^DATA_DIR cannot be used: .*notes\.txt.*\. Set it to a directory that this user may write to\.$/,
    );
  },
);
