import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
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

/** A repository with only the script, whose tools record their names and then wait, except for `quick` tools. */
function makeRepository(quick: readonly string[] = []): {
  readonly script: string;
  readonly begun: () => string;
  /** Makes a quick tool fail from now on. */
  readonly fail: (tool: string) => void;
} {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-test-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const copied = ['scripts/test.ts', 'test/reporter.ts', 'package.json'];
  for (const file of copied) cpSync(join(root, file), join(directory, file));
  writeFileSync(join(directory, 'scripts/build-dashboard.ts'), '');
  const calls = join(directory, 'calls');
  const toolOf = (name: string): string => join(directory, 'node_modules/.bin', name);
  for (const name of ['nx', 'tsc', 'eslint', 'depcruise', 'prettier', 'cspell', 'vitest']) {
    const tool = toolOf(name);
    mkdirSync(dirname(tool), { recursive: true });
    const then = quick.includes(name) ? '' : 'exec sleep 60\n';
    writeFileSync(tool, `#!/bin/sh\necho ${name} >> '${calls}'\n${then}`);
    chmodSync(tool, 0o755);
  }
  return {
    script: join(directory, 'scripts/test.ts'),
    begun: () => (existsSync(calls) ? readFileSync(calls, 'utf8') : ''),
    fail: (tool) => appendFileSync(toolOf(tool), 'exit 1\n'),
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
    await vi.waitUntil(() => begun() !== '', { timeout: 120_000, interval: 10 });
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([code, null]);
    expect(begun()).toBe(`${tool}\n`);
  },
);

test('SIGTERM ends parallel checks, and nothing more is started', async () => {
  const { script, begun } = makeRepository(['nx']);
  const child = spawn(process.execPath, [script], { stdio: ['ignore', 'ignore', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const tools = (): readonly string[] => begun().trim().split('\n').sort();
  await vi.waitUntil(() => tools().length === 4, { timeout: 120_000, interval: 10 });
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([143, null]);
  expect(tools()).toEqual(['eslint', 'nx', 'nx', 'prettier']);
});

test('failed checks are all counted, and the tests run after them', async () => {
  const tools = ['nx', 'tsc', 'eslint', 'depcruise', 'prettier', 'cspell', 'vitest'];
  const { script, begun, fail } = makeRepository(tools);
  fail('eslint');
  fail('prettier');
  const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  expect(await once(child, 'close')).toEqual([1, null]);
  expect(begun().trim().split('\n').toSorted()).toEqual([...tools, 'nx', 'tsc'].toSorted());
  expect(said.match(/^FAILED .*(?= \()/gm)?.toSorted()).toEqual([
    'FAILED formatting',
    'FAILED lint of scripts, tests and the bench',
  ]);
  // The fake vitest counts nothing, which is a failure of its own.
  expect(said.trim().split('\n').at(-1)).toBe('0 passed, 3 failed, 0 skipped');
});
