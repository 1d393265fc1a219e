import type {} from '../global-setup.ts';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { WriteStream } from 'node:tty';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_PROJECT_ID } from '../../libs/db/src/index.ts';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { keyForShell } from '../../scripts/demo/client.ts';
import { describeCrash, killWorker, waitsFor, type Aftermath } from '../../scripts/demo/crash.ts';
import { createProgressBar } from '../../scripts/demo/progress.ts';
import type { StackProcess } from '../../scripts/stack/processes.ts';
import type { Stack } from '../../scripts/stack/stack.ts';

test('on Windows, which cannot pause a process, the demo kills its worker without a pause and says so', async () => {
  onTestFinished(() => void vi.restoreAllMocks());
  vi.spyOn(process, 'platform', 'get').mockReturnValue('win32');
  const freeze = (): boolean => {
    throw new Error('kill ENOSYS');
  };
  const kill = vi.fn(async () => {});
  const victim = { name: 'worker-2', pid: 4_194_305, freeze, kill } as Partial<StackProcess> as StackProcess;
  const bystander = { name: 'worker-1', onLine: () => {} } as Partial<StackProcess> as StackProcess;
  const query = vi.fn(async () => ({ rows: [{ rows: 1, runs: 9 }] }));
  const aftermath = await killWorker({ workers: [bystander, victim], pool: { query } } as unknown as Stack);
  expect(kill).toHaveBeenCalledOnce();
  expect(aftermath).toMatchObject({ held: 0, runs_held: 0 });
  expect(aftermath?.victim).toMatch(/^worker-2 \(.*Windows/);
});

test('the demo kills a worker that holds runs', async () => {
  onTestFinished(() => void vi.restoreAllMocks());
  const done: string[] = [];
  vi.spyOn(process, 'platform', 'get').mockReturnValue('linux');
  const worker = (name: string, pid: number) => ({
    name,
    pid,
    freeze: () => done.push(`freeze ${name}`) > 0,
    thaw: () => void done.push(`thaw ${name}`),
    kill: vi.fn(async () => {}),
    onLine: vi.fn<StackProcess['onLine']>(),
  });
  const workers = [worker('worker-1', 4_194_305), worker('worker-2', 4_194_306)] as const;
  const query = vi.fn(async (_sql: string, [owner = '']: readonly string[] = []) => ({
    rows: [{ rows: 1, runs: owner.includes('worker-1') ? 9 : 0 }],
  }));
  const aftermath = await killWorker({ workers, pool: { query } } as unknown as Stack);
  expect(aftermath).toMatchObject({ victim: 'worker-1', held: 1, runs_held: 9 });
  expect(workers.map(({ kill }) => kill.mock.calls.length)).toEqual([1, 0]);
  expect(done).toEqual(['freeze worker-2', 'thaw worker-2', 'freeze worker-1']);
  expect(workers.map(({ onLine }) => onLine.mock.calls.length)).toEqual([0, 1]);
});

const aftermath = (held: number, taken: number): Aftermath => ({
  victim: 'worker-2',
  survivor: 'worker-1',
  pid: 1,
  held,
  runs_held: held * 9,
  taken_over: () => taken,
  lines_refused: async () => 3,
});

test('the takeover is checked when the killed worker held rows, and reported as not shown otherwise', async () => {
  expect((await describeCrash(aftermath(2, 1), 0)).check).toMatchObject({
    holds: true,
    detail: '1 of 2 taken over',
  });
  expect((await describeCrash(aftermath(2, 0), 0)).check).toMatchObject({ holds: false });
  const { text, check } = await describeCrash(aftermath(0, 0), 0);
  expect(check).toBeNull();
  expect(text).toMatch(/^worker-2 was killed with nothing known to be in its hands: .*not shown this time/);
});

test('the report of a crash counts steps in the database, and result lines since the kill', async () => {
  const { text } = await describeCrash(aftermath(2, 1), 4);
  expect(text).toMatch(/: 1 taken over .*, 3 result lines read again .*, 4 steps applied twice\.$/);

  onTestFinished(() => void vi.restoreAllMocks());
  vi.spyOn(process, 'platform', 'get').mockReturnValue('win32');
  const database = await openTestDatabase(inject('postgresUrl'));
  onTestFinished(() => database.close());
  const { pool } = database;
  // From an earlier demo in the same data directory.
  await pool.query(
    `insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at, lines_refused)
     values (gen_random_uuid(), $1, 'default', 'building', 'abcdef', 9, app_now(), 7)`,
    [DEFAULT_PROJECT_ID],
  );
  const worker = (name: string, pid: number) =>
    ({ name, pid, kill: async () => {}, onLine: () => {} }) as Partial<StackProcess> as StackProcess;
  const workers = [worker('worker-1', 4_194_305), worker('worker-2', 4_194_306)];
  const left = await killWorker({ workers, pool } as Partial<Stack> as Stack);
  expect(await left?.lines_refused()).toBe(0);
  await pool.query('update provider_batch set lines_refused = 9');
  expect(await left?.lines_refused()).toBe(2);
});

test.runIf(process.platform !== 'win32')('a shell finds the key in the curl command of the demo', () => {
  onTestFinished(() => void vi.unstubAllEnvs());
  const dir = mkdtempSync(join(tmpdir(), "nightshift it's here "));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  writeFileSync(join(dir, 'api-key'), 'of the file\n');
  const shown = () =>
    execFileSync('sh', ['-c', `printf %s "Bearer ${keyForShell(dir)}"`], { encoding: 'utf8' });
  vi.stubEnv('NIGHTSHIFT_API_KEY', '');
  expect(shown()).toBe('Bearer of the file');
  vi.stubEnv('NIGHTSHIFT_API_KEY', 'of the environment');
  expect(shown()).toBe('Bearer of the environment');
});

test('the progress names the lease that a stalled batch waits for', () => {
  expect(waitsFor(null, 9_000)).toBeNull();
  expect(waitsFor(aftermath(2, 1), 9_000)).toBe('waits for a lease');
  expect(waitsFor(aftermath(2, 1), 500)).toBeNull();
  expect(waitsFor(aftermath(2, 2), 9_000)).toBeNull();
  const written: string[] = [];
  const stream = { isTTY: true, write: (text: string) => written.push(text) > 0 };
  const bar = createProgressBar('evening', 9, stream as unknown as WriteStream);
  const batch = {
    state: 'running',
    state_reason: null,
    counts: { total: 3, skipped: {}, completed: 0, failed: 0, cancelled: 0, expired: 0 },
    usage: { steps: 3, tool_calls: 0, input_tokens: 0, output_tokens: 0, cost_usd: '0' },
  };
  bar.show(batch, 1, 'waits for a lease');
  expect(written.at(-1)).toMatch(/workers 1 \| waits for a lease$/);
  bar.show(batch, 1);
  expect(written.at(-1)).toMatch(/workers 1$/);
});
