import type {} from '../../../../test/global-setup.ts';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DEFAULT_PROJECT_ID, newId, requestDrain } from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import type { ToolManifest } from '@nightshift/tool-host';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { startSimulator, type Simulator } from '../../../simulator/src/index.ts';
import { readConfig, type WorkerConfig } from '../../src/config.ts';
import { newNonce } from '../../src/flow-parts/nonce.ts';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { startWorker, type Worker, type WorkerParts } from '../../src/worker.ts';

let database: TestDatabase;
let simulator: Simulator;
let dir: string;
let workers: Worker[] = [];

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-worker-'));
  database = await openTestDatabase(inject('postgresUrl'));
  simulator = await startSimulator({ dataDir: dir, settings: { latency: 'fixed:0' } });
});
afterEach(async () => {
  for (const worker of workers) await worker.stop(0);
  workers = [];
  await simulator.close();
  await database.close();
  await rm(dir, { recursive: true, force: true });
});

const SHOUT: ToolManifest = {
  name: 'shout',
  description: 'Says a text louder.',
  parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  side_effects: 'none',
  speed: 'fast',
  concurrency: null,
  timeout_ms: 1_000,
  result_char_limit: 100,
  file: 'shout.js',
};

function configOf(owner: string, env: Readonly<Record<string, string>> = {}): WorkerConfig {
  return readConfig({
    DATABASE_URL: database.url,
    ANTHROPIC_API_KEY: 'test-key',
    ANTHROPIC_BASE_URL: simulator.apiUrl,
    DATA_DIR: dir,
    WORKER_NAME: owner,
    SWEEP_INTERVAL_MS: '50',
    ...env,
  });
}

async function start(
  config: WorkerConfig,
  parts: Partial<Pick<WorkerParts, 'listTools' | 'provider' | 'hooks'>> = {},
): Promise<{ worker: Worker; failures: unknown[]; reports: Record<string, unknown>[] }> {
  const failures: unknown[] = [];
  const reports: Record<string, unknown>[] = [];
  const worker = await startWorker(config, {
    pool: database.pool,
    provider: anthropicProvider(config.provider),
    runners: {},
    listTools: () => [],
    log: {
      report: (report) => void reports.push(report),
      failure: (_flow, error) => void failures.push(error),
      queueError: (error) => void failures.push(error),
    },
    ...parts,
  });
  workers.push(worker);
  return { worker, failures, reports };
}

/** Creates a due provider batch in the given state. */
async function insertProviderBatch(
  state: 'building' | 'submitting' | 'submitted' | 'ended',
  lease?: { readonly owner: string; readonly until: string },
): Promise<string> {
  const id = newId();
  const sent = state === 'building' ? null : 'now()';
  await database.pool.query(
    `insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at, body_bytes,
       body_sha256, submit_started_at, provider_id, submitted_at, ended_at, lease_owner, lease_until, lease_epoch)
     values ($1, $2, 'default', $3, $4, 1, now(), ${sent && 1}, ${sent && `'x'`}, ${sent},
       ${['submitted', 'ended'].includes(state) ? `'msgbatch_' || $4` : null},
       ${['submitted', 'ended'].includes(state) ? 'now()' : null}, ${state === 'ended' ? 'now()' : null},
       $5, coalesce($6::timestamptz, '-infinity'), 1)`,
    [id, DEFAULT_PROJECT_ID, state, newNonce(), lease?.owner ?? null, lease?.until ?? null],
  );
  return id;
}

async function ownersOf(ids: readonly string[]): Promise<(string | null)[]> {
  const { rows } = await database.pool.query<{ lease_owner: string | null }>(
    `select lease_owner from provider_batch where id = any($1::uuid[]) order by array_position($1::uuid[], id)`,
    [ids],
  );
  return rows.map((row) => row.lease_owner);
}

/** Reads whether a poll has recorded that the provider does not find the batch. */
async function wasLookedFor(id: string): Promise<boolean | undefined> {
  const { rows } = await database.pool.query<{ looked: boolean }>(
    'select missing_since is not null as looked from provider_batch where id = $1',
    [id],
  );
  return rows[0]?.looked;
}

/** Returns the lease owner of another process with the given name. */
async function ownerInAnotherProcess(name: string): Promise<string> {
  const config = new URL('../../src/config.ts', import.meta.url).href;
  const script = `import { readConfig } from ${JSON.stringify(config)}; console.log(readConfig(process.env).owner)`;
  const env = { DATABASE_URL: database.url, ANTHROPIC_API_KEY: 'test-key', WORKER_NAME: name };
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    env,
  });
  return stdout.trim();
}

/** A provider whose result streams hang; the simulator gives the other answers. */
function silentResults(): { provider: ProviderPort; asked: () => number } {
  let asked = 0;
  const real = anthropicProvider({ apiKey: 'test-key', baseURL: simulator.apiUrl });
  return {
    asked: () => asked,
    provider: {
      ...real,
      streamResults: (_id, { signal }) => {
        asked += 1;
        return new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        });
      },
    },
  };
}

test('a worker has a row with its version and usable tools while it is at work, and none after its stop', async () => {
  const config = configOf('known');
  const unusable = { ...SHOUT, name: 'broken', parameters: { type: 'string' } };
  const { worker } = await start(config, { listTools: () => [SHOUT, unusable] });
  const rows = (): Promise<readonly unknown[]> => worker.db.selectFrom('worker').selectAll().execute();
  await expect.poll(rows).toEqual([
    expect.objectContaining({
      owner: config.owner,
      name: 'known',
      pid: process.pid,
      version: '0.1.0',
      tools: { shout: expect.stringMatching(/^[0-9a-f]{12}$/) as string },
    }),
  ]);
  await worker.stop(0);
  expect(await rows()).toEqual([]);
});

test('a module tool with a schema that the provider refuses is left out, and the log gives the reason', async () => {
  const odd = { ...SHOUT, name: 'odd', parameters: { type: 'object', anyOf: [{}] }, file: 'odd.js' };
  const { reports } = await start(configOf('one'), {
    listTools: () => [odd, SHOUT],
  });
  const { rows } = await database.pool.query(`select name from tool where kind = 'module'`);
  expect(rows).toEqual([{ name: 'shout' }]);
  const reason: unknown = expect.stringContaining("must not have 'anyOf' at the top");
  expect(reports).toContainEqual(
    expect.objectContaining({ flow: 'register-tools', alarm: true, tool: 'odd', file: 'odd.js', reason }),
  );
});

test('the module tools of the tool host are registered once the worker has started', async () => {
  await start(configOf('one'), {
    listTools: () => [SHOUT],
  });
  const { rows } = await database.pool.query(
    `select name, kind, description, side_effects, timeout_ms, return_char_limit from tool where kind = 'module'`,
  );
  expect(rows).toEqual([
    {
      name: 'shout',
      kind: 'module',
      description: 'Says a text louder.',
      side_effects: 'none',
      timeout_ms: 1_000,
      return_char_limit: 100,
    },
  ]);
});

test('a worker finds due rows by its sweep, without any signal', async () => {
  await start(configOf('one'));
  const id = await insertProviderBatch('submitted');
  await expect.poll(() => wasLookedFor(id)).toBe(true);
});

test('a worker looks for all due work once its listener reconnects', async () => {
  const { failures } = await start(
    configOf('one', { QUEUE_URL: database.url, SWEEP_INTERVAL_MS: '3600000' }),
  );
  const looked = await insertProviderBatch('submitted');
  const listener = `select pid from pg_stat_activity where datname = current_database() and query like 'listen %'`;
  await database.pool.query(`select pg_terminate_backend(pid) from (${listener}) found`);
  await expect.poll(() => wasLookedFor(looked), { timeout: 10_000 }).toBe(true);
  expect(failures.length).toBeGreaterThan(0);
});

test('a worker that stops during work releases its leases at once', async () => {
  const { provider, asked } = silentResults();
  const config = configOf('one');
  const { worker, failures } = await start(config, { provider });
  const id = await insertProviderBatch('ended');
  await expect.poll(asked).toBe(1);
  expect(await ownersOf([id])).toEqual([config.owner]);
  await worker.stop(100);
  expect(await ownersOf([id])).toEqual([null]);
  const { rows } = await database.pool.query<{ free: boolean }>(
    'select lease_until < app_now() as free from provider_batch where id = $1',
    [id],
  );
  expect(rows).toEqual([{ free: true }]);
  // A cut flow is no failure and must not be logged as one.
  expect(failures).toEqual([]);
});

test('a flow that ends within the grace is not cut off', async () => {
  const inside = Promise.withResolvers<void>();
  const open = Promise.withResolvers<void>();
  const { worker } = await start(configOf('one'), {
    hooks: async (point) => {
      if (point !== 'poll.after_look') return;
      inside.resolve();
      await open.promise;
    },
  });
  const id = await insertProviderBatch('submitted');
  await inside.promise;
  const stopped = worker.stop(10_000);
  open.resolve();
  await stopped;
  expect(await wasLookedFor(id)).toBe(true);
});

test('a stop does not wait for a flow that ignores its signal', async () => {
  const inside = Promise.withResolvers<void>();
  const { worker } = await start(configOf('one'), {
    hooks: (point) => {
      if (point !== 'poll.after_look') return;
      inside.resolve();
      return new Promise(() => undefined);
    },
  });
  const id = await insertProviderBatch('submitted');
  await inside.promise;
  await worker.stop(100);
  expect(await ownersOf([id])).toEqual([null]);
});

test('after a stop no row is claimed', async () => {
  const { worker, reports } = await start(configOf('one'));
  await worker.stop();
  const before = reports.length;
  const id = await insertProviderBatch('submitted');
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(reports).toHaveLength(before);
  const { rows } = await database.pool.query('select lease_epoch from provider_batch where id = $1', [id]);
  expect(rows).toEqual([{ lease_epoch: 1 }]);
});

test('a start takes over only the lapsed leases of its own name', async () => {
  const config = configOf('one');
  const lease = { owner: config.owner, until: '2999-01-01' };
  const sending = await insertProviderBatch('submitting', lease);
  const held = await insertProviderBatch('ended', lease);
  const lapsed = await insertProviderBatch('ended', { owner: config.owner, until: '2020-01-01' });
  const { provider, asked } = silentResults();
  await start(config, { provider });
  await expect.poll(asked).toBe(1);
  const { rows } = await database.pool.query(
    `select lease_epoch, takeovers, lease_until = $2 as untouched from provider_batch
      where id = any($1::uuid[]) order by array_position($1::uuid[], id)`,
    [[sending, held, lapsed], lease.until],
  );
  expect(rows).toEqual([
    { lease_epoch: 1, takeovers: 0, untouched: true },
    { lease_epoch: 1, takeovers: 0, untouched: true },
    { lease_epoch: 2, takeovers: 1, untouched: false },
  ]);
});

test('a stop keeps the lease of a provider batch under submission', async () => {
  const config = configOf('one');
  const sending = await insertProviderBatch('submitting', { owner: config.owner, until: '2999-01-01' });
  const { worker } = await start(config);
  await worker.stop(100);
  expect(await ownersOf([sending])).toEqual([config.owner]);
});

test('a stop releases no leases of another process with the same name', async () => {
  const other = await ownerInAnotherProcess('one');
  const held = await insertProviderBatch('ended', { owner: other, until: '2999-01-01' });
  const { worker } = await start(configOf('one'));
  await worker.stop(100);
  expect(await ownersOf([held])).toEqual([other]);
});

test('a worker refuses to start while work is under way at another provider, and names the next step', async () => {
  await start(configOf('one', { SIMULATOR_URL: simulator.apiUrl }));
  await insertProviderBatch('submitted', { owner: 'one', until: '2999-01-01' });
  await expect(start(configOf('two'))).rejects.toMatchObject({
    code: 'other_provider',
    message: expect.stringMatching(/^Unfinished at the simulator: 1 provider batch\. /) as unknown,
  });
  await start(configOf('three', { SIMULATOR_URL: simulator.apiUrl }));
});

test('an unusable queue URL keeps a worker from starting', async () => {
  await expect(start(configOf('one', { QUEUE_URL: 'carrier-pigeon://loft' }))).rejects.toThrow(/QUEUE_URL/);
});

test('a drained worker finishes its flow under way, and claims no row meanwhile', async () => {
  const inside = Promise.withResolvers<void>();
  const open = Promise.withResolvers<void>();
  const { worker, reports } = await start(configOf('one'), {
    hooks: async (point) => {
      if (point !== 'poll.after_look') return;
      inside.resolve();
      await open.promise;
    },
  });
  const held = await insertProviderBatch('submitted');
  await inside.promise;
  const worked = worker.db.selectFrom('worker').select('id');
  await expect.poll(() => worked.execute()).toHaveLength(1);
  await requestDrain(worker.db, DEFAULT_PROJECT_ID, (await worked.executeTakeFirstOrThrow()).id);
  await expect.poll(() => reports.map(({ flow }) => flow), { timeout: 15_000 }).toContain('drain');
  const later = await insertProviderBatch('submitted');
  open.resolve();
  await worker.drained;
  expect(await wasLookedFor(held)).toBe(true);
  expect(await wasLookedFor(later)).toBe(false);
  expect(await ownersOf([held, later])).toEqual([null, null]);
}, 30_000);
