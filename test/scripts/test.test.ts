import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';

const root = join(import.meta.dirname, '../..');

/** A repository of the script alone, whose tools write their names down and then last. */
function makeRepository(): { readonly script: string; readonly begun: () => string } {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-test-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const copied = ['scripts/test.ts', 'test/reporter.ts', 'package.json'];
  for (const file of copied) cpSync(join(root, file), join(directory, file));
  const calls = join(directory, 'calls');
  for (const name of ['nx', 'tsc', 'eslint', 'depcruise', 'prettier', 'vitest']) {
    const tool = join(directory, 'node_modules/.bin', name);
    mkdirSync(dirname(tool), { recursive: true });
    writeFileSync(tool, `#!/bin/sh\necho ${name} >> '${calls}'\nexec sleep 60\n`);
    chmodSync(tool, 0o755);
  }
  return {
    script: join(directory, 'scripts/test.ts'),
    begun: () => (existsSync(calls) ? readFileSync(calls, 'utf8') : ''),
  };
}

test.each([
  ['SIGINT', [], 'nx', 130],
  ['SIGTERM', [], 'nx', 143],
  ['SIGHUP', [], 'nx', 129],
  ['SIGTERM', ['some.test.ts'], 'vitest', 143],
] as const)(
  '%s with %j ends npm test during %s, and nothing more is started',
  async (signal, filters, tool, code) => {
    const { script, begun } = makeRepository();
    const child = spawn(process.execPath, [script, ...filters], { stdio: ['ignore', 'ignore', 'inherit'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    await vi.waitUntil(() => begun() !== '', { timeout: 20_000, interval: 10 });
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([code, null]);
    expect(begun()).toBe(`${tool}\n`);
  },
);
