import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { familyOf, lives } from './house.ts';

/** Starts a command whose stack has a frozen worker. Returns all its processes. */
async function freeze() {
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-signals-'));
  const command = spawn(process.execPath, [join(import.meta.dirname, 'freezer.ts'), dir], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let shown = '';
  command.stderr.on('data', (chunk: Buffer) => (shown += chunk.toString()));
  const ended = once(command, 'close') as Promise<[number | null]>;
  const lines = createInterface({ input: command.stdout });
  const [line] = (await Promise.race([once(lines, 'line'), ended])) as [unknown];
  const family = familyOf(command.pid ?? 0);
  onTestFinished(async () => {
    for (const id of family.filter(lives)) process.kill(id, 'SIGKILL');
    await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  });
  expect({ line, shown }).toEqual({ line: 'frozen', shown: '' });
  return { command, dir, family, ended, shown: () => shown };
}

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s ends a command and its stack in order, even with a frozen worker and failing work',
  async (signal) => {
    const { command, dir, family, ended, shown } = await freeze();
    command.kill(signal);
    expect(await ended).toEqual([128 + constants.signals[signal], null]);
    expect(shown()).toBe('Stopping …\n');
    expect(existsSync(join(dir, 'pg/cluster/postmaster.pid'))).toBe(false);
    await expect.poll(() => family.filter(lives)).toEqual([]);
  },
);
