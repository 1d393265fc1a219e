import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { readOptions, type Options } from '../options.ts';
import { compare } from '../scenarios/compare.ts';
import { startServer } from '../servers.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'bench-servers-'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true, force: true });
});

test('a server that takes no connection is stopped, and what it wrote is removed', async () => {
  vi.stubEnv('PGOPTIONS', '-c no_such_setting=1');
  await expect(startServer(join(dir, 'pg'), 'stock')).rejects.toThrow('no_such_setting');
  expect(existsSync(join(dir, 'pg'))).toBe(false);
});

// Where there is no script that could be a Redis there is no bench either.
test.skipIf(process.platform === 'win32')(
  'a comparison whose Redis does not start leaves no PostgreSQL',
  async () => {
    const bin = join(dir, 'bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'redis-server'), '#!/bin/sh\necho it will not\nexit 1\n');
    chmodSync(join(bin, 'redis-server'), 0o755);
    vi.stubEnv('PATH', `${bin}${delimiter}${process.env['PATH'] ?? ''}`);
    const options = readOptions(['--runs', '1']) as Options;
    await expect(compare({ options, dir, say: () => undefined })).rejects.toThrow('it will not');
    expect(existsSync(join(dir, 'pg'))).toBe(false);
  },
);
