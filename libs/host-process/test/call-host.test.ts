import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { startCallHost, type CallHost, type FromHost } from '../src/index.ts';

const PROGRAM = fileURLToPath(new URL('fixtures/host.ts', import.meta.url));
type Answer = number | string;

/** Starts a host whose replies are ids of processes. While the file `broken` exists, no process starts. */
async function startHost(): Promise<{
  readonly host: CallHost<object, Answer>;
  readonly broken: string;
  readonly log: string[];
}> {
  const folder = await mkdtemp(join(tmpdir(), 'nightshift-host-process-'));
  const broken = join(folder, 'broken');
  const log: string[] = [];
  const host = await startCallHost<object, number, Answer>({
    name: 'test-host',
    command: () => ({
      program: process.execPath,
      arguments: ['--disable-warning=ExperimentalWarning', PROGRAM, broken],
      env: {},
    }),
    frameBytesMax: 1_024,
    callsMax: 2,
    recycleAfterCalls: 3,
    pingEveryMs: 5_000,
    onLog: (line) => log.push(line),
    readMessage: (message) => message as FromHost<number>,
    isRepeatable: () => true,
    replyOf: (_, reply) => reply,
    endedReply: (_, { reason }) => reason,
  });
  onTestFinished(async () => {
    await host.close();
    await rm(folder, { recursive: true });
  });
  return { host, broken, log };
}

const ask = (host: CallHost<object, Answer>): Promise<Answer> => host.runCall({}, '{"a":1}', undefined);

test('a process is replaced after its calls, and goes on until its successor is ready', async () => {
  const { host } = await startHost();
  const first = host.pid();
  expect(await Promise.all([ask(host), ask(host), ask(host)])).toEqual([first, first, first]);
  await expect.poll(() => host.pid(), { timeout: 60_000 }).not.toBe(first);
  expect(await ask(host)).toBe(host.pid());
});

test('a successor that does not start ends no call: the process goes on', async () => {
  const { host, broken, log } = await startHost();
  const first = host.pid();
  await writeFile(broken, '');
  const failures = (): number => log.filter((line) => line.includes('process gone')).length;
  while (failures() < 6) expect(await ask(host)).toBe(first);
  await rm(broken);
  await expect.poll(async () => (await ask(host)) === first, { timeout: 60_000 }).toBe(false);
});

test('a call larger than a frame fails by itself', async () => {
  const { host } = await startHost();
  const json = JSON.stringify({ text: 'x'.repeat(1_024) });
  expect(await host.runCall({}, json, undefined)).toMatch(
    /^arguments are too large: the call takes \d+ bytes/,
  );
  expect(await ask(host)).toBe(host.pid());
});
