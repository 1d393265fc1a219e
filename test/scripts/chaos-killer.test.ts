import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import type pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startKiller, type Killer } from '../../scripts/chaos/killer.ts';
import { startProcess, type StackProcess } from '../../scripts/stack/processes.ts';
import type { Stack } from '../../scripts/stack/stack.ts';

// Random values of the killer, by effect; it draws its victim first.
const CUT = 0.05;
const FREEZE = 0.2;
const KILL = 0.9;

let dir: string;
let entry: string;
let workers: StackProcess[];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nightshift-killer-'));
  const file = join(dir, 'worker.mjs');
  // Ends with its parent, as workers do, and on its own when told to.
  writeFileSync(
    file,
    `process.stdin.on('end', () => process.exit()).resume();
     process.once('SIGUSR2', () => { throw new Error('a bug'); });
     console.log('at work');`,
  );
  entry = relative(join(import.meta.dirname, '../..'), file);
  workers = [];
});
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.kill()));
  rmSync(dir, { recursive: true, force: true });
});

async function addWorker(name: string): Promise<StackProcess> {
  const worker = startProcess(name, entry, {}, join(dir, `${name}.log`));
  workers.push(worker);
  await worker.firstLine((line) => (line === 'at work' ? true : undefined));
  return worker;
}

/** Starts a killer of two workers that first strikes as `dice` says, and later only cuts connections. */
async function startWith(
  dice: readonly number[],
  { add = addWorker, told = new AbortController().signal } = {},
): Promise<Killer> {
  const first = await Promise.all(['worker-1', 'worker-2'].map(add));
  const drawn = dice.flatMap((die) => [0, die]);
  const pool = { query: async () => ({ rows: [] }) } as unknown as pg.Pool;
  return startKiller({ workers: first, addWorker: add } as Partial<Stack> as Stack, pool, {
    ...{ workers: 2, interval_ms: 1, freeze_ms: 100 },
    random: () => drawn.shift() ?? CUT,
    told,
  });
}

const names = (of: readonly StackProcess[]): string[] => of.map((worker) => worker.name).sort();
const living = (): StackProcess[] => workers.filter((worker) => worker.alive());

test('a killed worker is replaced and does not count as an unexpected end', async () => {
  const killer = await startWith([KILL]);
  await expect.poll(() => killer.strikes.kills).toBe(1);
  await killer.stop();
  expect(killer.strikes.unexpected_ends).toEqual([]);
  expect(names(living())).toEqual(['chaos-1', 'worker-2']);
});

test('an unexpected end is reported with its log, and another worker is started', async () => {
  const killer = await startWith([]);
  process.kill(workers[0]!.pid, 'SIGUSR2');
  await expect.poll(() => killer.strikes.unexpected_ends).toHaveLength(1);
  await killer.stop();
  expect(killer.strikes).toMatchObject({
    kills: 0,
    unexpected_ends: [`worker-1 ended by itself (code 1); its log: ${join(dir, 'worker-1.log')}`],
  });
  expect(names(living())).toEqual(['chaos-1', 'worker-2']);
});

test('a worker that ended before its kill counts as an unexpected end', async () => {
  const add = async (name: string): Promise<StackProcess> => {
    const worker = await addWorker(name);
    const kill = async (): Promise<void> => {
      process.kill(worker.pid, 'SIGUSR2');
      await worker.ended;
    };
    return { ...worker, kill };
  };
  const killer = await startWith([KILL], { add });
  await expect.poll(() => killer.strikes.unexpected_ends).toHaveLength(1);
  await killer.stop();
  expect(killer.strikes.kills).toBe(0);
  expect(names(living())).toEqual(['chaos-1', 'worker-2']);
});

test('a worker that ends while it is paused is neither resumed nor struck again', async () => {
  const killer = await startWith([FREEZE]);
  await expect.poll(() => killer.strikes.pauses).toBe(1);
  process.kill(workers[0]!.pid, 'SIGKILL');
  await expect.poll(() => killer.strikes.unexpected_ends).toHaveLength(1);
  await killer.stop();
  expect(killer.strikes.unexpected_ends[0]).toMatch(/^worker-1 ended by itself \(SIGKILL\)/);
  expect(names(living())).toEqual(['chaos-1', 'worker-2']);
});

test('unexpected ends after the faults are reported too', async () => {
  const killer = await startWith([]);
  await killer.stop();
  process.kill(workers[1]!.pid, 'SIGUSR2');
  await expect.poll(() => killer.strikes.unexpected_ends).toHaveLength(1);
});

test('an aborted killer strikes and starts no worker', async () => {
  const told = new AbortController();
  told.abort();
  const killer = await startWith([KILL, KILL], { told: told.signal });
  process.kill(workers[1]!.pid, 'SIGKILL');
  await expect.poll(() => killer.strikes.unexpected_ends).toHaveLength(1);
  await killer.stop();
  expect(killer.strikes.kills).toBe(0);
  expect(names(workers)).toEqual(['worker-1', 'worker-2']);
});
