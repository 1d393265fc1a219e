import { PAUSE_REASONS } from '@nightshift/agent-core';
import {
  commitHeartbeat,
  connect,
  haltCredential,
  inTransaction,
  MIGRATIONS,
  pauseCredential,
  putSecrets,
  readSlowStatements,
  removeWorker,
  type WorkerSelf,
} from '@nightshift/db';
import { readSecretsKeys, sealSecret } from '@nightshift/intake';
import { createPool } from '@nightshift/services';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createHeldBytes } from '../src/body-budget.ts';
import { buildServer } from '../src/index.ts';
import type { Check } from '../src/schemas/checks.ts';
import { API_KEY, createAgent, openApi, PROJECT_ID, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const WORKER: WorkerSelf = {
  owner: 'worker-1@host:1-abc',
  name: 'worker-1',
  host: 'host',
  pid: 1,
  version: '0.1.0',
  tools: {},
};
const beat = (overrides: Partial<WorkerSelf> = {}): Promise<boolean> =>
  commitHeartbeat(api.database.db, PROJECT_ID, { ...WORKER, ...overrides });
/** The newest migration. */
const NEWEST = Object.keys(MIGRATIONS).at(-1) ?? '';
const sql = (statement: string, parameters: unknown[] = []): Promise<pg.QueryResult> =>
  api.database.pool.query(statement, parameters);

beforeEach(() => beat());
afterEach(async () => {
  await sql(`delete from worker; delete from agent_tool; delete from schedule; delete from run_chunk; delete from audit_report; delete from secret;
    update agent set deleted_at = app_now() where deleted_at is null;
    update credential set paused_until = null, pause_reason = null, clock_measured_at = null, clock_offset_ms = null,
                          clock_uncertainty_ms = null`);
});

interface Checks {
  readonly ok: boolean;
  readonly of: <Name extends Check['name']>(name: Name) => Extract<Check, { readonly name: Name }>;
  readonly all: readonly Check[];
}

async function check(query = '', ask: Pick<TestApi, 'call'> = api): Promise<Checks> {
  const { status, body } = await ask.call('GET', `/v1/admin/checks${query}`);
  expect(status).toBe(200);
  const all = body.checks as readonly Check[];
  return {
    ok: body.ok,
    all,
    of: (name) => all.find((found) => found.name === name) as never,
  };
}

/** Opens a further server on the same database, with other parts. */
async function openWith(parts: Partial<Parameters<typeof buildServer>[0]>) {
  const app = buildServer({
    db: api.database.db,
    bell: { ring: async () => undefined },
    apiKey: API_KEY,
    model: 'simulator',
    // As in a thread: it registers no tools.
    heldBytes: createHeldBytes(),
    ...parts,
  });
  let arrived = 0;
  app.addHook('preHandler', async () => {
    arrived++;
  });
  await app.ready();
  return {
    arrived: () => arrived,
    close: () => app.close(),
    call: async (method: 'GET', url: string) => {
      const answer = await app.inject({ method, url, headers: { authorization: `Bearer ${API_KEY}` } });
      return { status: answer.statusCode, headers: {}, body: answer.json() };
    },
  } as unknown as Pick<TestApi, 'call' | 'close'> & { readonly arrived: () => number };
}

test('a sound installation has no finding but what is so', async () => {
  const { ok, all } = await check();
  expect(all.filter(({ status }) => status !== 'ok')).toEqual([]);
  expect(ok).toBe(true);
  expect(all.map(({ name }) => name)).toEqual([
    ...['database', 'migrations', 'connections', 'statements', 'disk', 'queue', 'workers', 'tools'],
    ...['secrets', 'provider_keys', 'clocks', 'backlog', 'books', 'prices', 'schedules'],
  ]);
  expect(all.map(({ advice }) => advice)).toEqual(all.map(() => null));
});

test('every finding that is not ok has an advice, and no finding shows the key or the database password', async () => {
  await removeWorker(api.database.db, WORKER.owner);
  const { all } = await check();
  for (const { status, advice } of all) expect(advice === null).toBe(status === 'ok');
  const text = JSON.stringify(all);
  expect(text).not.toContain(API_KEY);
  expect(text).not.toContain(new URL(api.database.url).password || 'no password');
});

describe('the database', () => {
  test('lacks a migration', async () => {
    await sql('delete from kysely_migration where name = $1', [NEWEST]);
    try {
      const { ok, of } = await check();
      expect(ok).toBe(false);
      expect(of('migrations')).toMatchObject({
        status: 'failing',
        finding: `The database lacks the migrations ${NEWEST}.`,
        advice: expect.stringContaining('node scripts/migrate.ts') as string,
        details: { missing: [NEWEST], unknown: [] },
      });
    } finally {
      await sql(
        'insert into kysely_migration (name, timestamp) select $1, timestamp from kysely_migration limit 1',
        [NEWEST],
      );
    }
  });

  test('has a migration of a later release', async () => {
    await sql(`insert into kysely_migration (name, timestamp) values ('0099-later', '2030-01-01')`);
    try {
      expect((await check()).of('migrations')).toMatchObject({
        status: 'failing',
        details: { unknown: ['0099-later'] },
      });
    } finally {
      await sql(`delete from kysely_migration where name = '0099-later'`);
    }
  });

  test('denies its role a right', async () => {
    const role = `reader_${process.pid}`;
    await sql(
      `create role ${role} login password 'reader'; grant select on all tables in schema public to ${role}`,
    );
    const url = new URL(api.database.url);
    url.username = role;
    url.password = 'reader';
    const db = connect(createPool({ url: url.href, max: 8 }));
    const other = await openWith({ db });
    try {
      const { of } = await check('', other);
      expect(of('database')).toMatchObject({
        status: 'failing',
        finding: `The role "${role}" lacks a right.`,
        advice: expect.stringContaining('grant insert, update, delete on all tables') as string,
        details: { role, is_superuser: false },
      });
      expect(of('connections').details?.max).toBeGreaterThan(0);
    } finally {
      await other.close();
      await db.destroy();
      await sql(`drop owned by ${role}; drop role ${role}`);
    }
  });

  test('has a transaction that is left open: it is named without its text', async () => {
    const idle = createPool({ url: api.database.url, max: 1, applicationName: 'forgetful' });
    const client = await idle.connect();
    try {
      await client.query(`begin; select 'a secret'`);
      const slow = await readSlowStatements(api.database.db, 10, { running: 0, idle_in_transaction: -1 });
      const found = slow.filter(({ application_name }) => application_name === 'forgetful');
      expect(found).toEqual([
        {
          application_name: 'forgetful',
          pid: expect.any(Number) as number,
          kind: 'idle_in_transaction',
          seconds: 0,
        },
      ]);
      expect((await check()).of('statements')).toMatchObject({ status: 'ok', details: { slow: [] } });
    } finally {
      client.release(true);
      await idle.end();
    }
  });

  test('holds a lock: the check that waits for it fails after two seconds, and the others answer', async () => {
    const locker = await api.database.pool.connect();
    try {
      await locker.query('begin; lock table worker in access exclusive mode');
      const { ok, of } = await check();
      expect(ok).toBe(false);
      expect(of('workers')).toEqual({
        name: 'workers',
        status: 'failing',
        finding: 'This check failed: a statement took longer than 2 s.',
        advice: expect.stringContaining('the check statements') as string,
        details: null,
      });
      expect(of('prices').status).toBe('ok');
    } finally {
      await locker.query('rollback');
      locker.release();
    }
  });

  test('cannot be reached: every check that needs it says so, and the answer is a 200', async () => {
    const db = connect(createPool({ url: 'postgres://none@127.0.0.1:1/none', max: 1 }));
    const other = await openWith({ db });
    try {
      const { ok, all } = await check('', other);
      expect(ok).toBe(false);
      expect(all.filter(({ status }) => status === 'ok').map(({ name }) => name)).toEqual(['queue']);
      expect(all[0]?.finding).toContain('ECONNREFUSED');
    } finally {
      await other.close();
      await db.destroy();
    }
  });
});

describe('the workers', () => {
  test('are none', async () => {
    await removeWorker(api.database.db, WORKER.owner);
    const { of } = await check();
    expect(of('workers')).toMatchObject({
      status: 'failing',
      finding: 'No worker is alive.',
      details: { workers: [] },
    });
    expect(of('tools').status).toBe('warning');
  });

  test('died more than a minute ago, and are forgotten after a day', async () => {
    await sql(`update worker set heartbeat_at = app_now() - interval '61 seconds'`);
    expect((await check()).of('workers')).toMatchObject({
      status: 'failing',
      finding: 'No worker is alive; 1 worker ended without a stop.',
      details: { workers: [{ name: 'worker-1', is_alive: false }] },
    });
    await sql(`update worker set heartbeat_at = app_now() - interval '25 hours'`);
    await beat({ owner: 'another', name: 'another' });
    expect((await check()).of('workers')).toMatchObject({
      status: 'ok',
      details: { workers: [{ name: 'another', is_alive: true }] },
    });
  });

  test('are of another version', async () => {
    await beat({ owner: 'old', name: 'old-worker', version: '0.0.9' });
    expect((await check()).of('workers')).toMatchObject({
      status: 'warning',
      finding: 'The API is version 0.1.0, but old-worker is 0.0.9.',
    });
  });

  test('differ in a tool', async () => {
    await beat({ owner: 'one', tools: { shout: 'a', whisper: 'w' } });
    await beat({ owner: 'two', tools: { shout: 'b', whisper: 'w' } });
    await removeWorker(api.database.db, WORKER.owner);
    expect((await check()).of('tools')).toMatchObject({
      status: 'warning',
      finding: 'The workers do not have the same tool shout.',
      details: { missing: [], differing: ['shout'] },
    });
  });

  test('lack a tool that an agent has', async () => {
    const agent = await createAgent(api);
    await sql(
      `insert into tool (id, project_id, name, kind, tool_type, description, input_schema, side_effects, return_char_limit, timeout_ms, source_type)
       values ('01890000-0000-7000-8000-00000000aaaa', $1, 'look_up', 'module', 'custom', '', '{}', 'none', 100, 100, 'json')`,
      [PROJECT_ID],
    );
    await sql(
      `insert into agent_tool (agent_id, tool_id, project_id, position) values ($1, '01890000-0000-7000-8000-00000000aaaa', $2, 99)`,
      [agent.slice('agent-'.length), PROJECT_ID],
    );
    expect((await check()).of('tools')).toMatchObject({
      status: 'failing',
      finding: 'No worker has the tools look_up, which agents have.',
      details: { missing: ['look_up'], differing: [] },
    });
  });
});

describe('a provider key', () => {
  test.each([
    [PAUSE_REASONS.unauthorized, 'failing', 'ANTHROPIC_API_KEY'],
    [PAUSE_REASONS.spend_limit, 'failing', 'console'],
    [PAUSE_REASONS.rate_limited, 'warning', 'by itself'],
  ])('is paused: %s', async (reason, status, advice) => {
    await pauseCredential(api.database.db, 'default', 600_000, reason);
    expect((await check()).of('provider_keys')).toMatchObject({
      status,
      finding: expect.stringContaining(reason) as string,
      advice: expect.stringContaining(advice) as string,
      details: { keys: [{ name: 'default', state: 'paused', reason }] },
    });
  });

  test('is halted by the audit', async () => {
    await haltCredential(api.database.db, 'default', 'I8, no step is paid twice');
    expect((await check()).of('provider_keys')).toMatchObject({
      status: 'failing',
      advice: expect.stringContaining('--resume') as string,
      details: { keys: [{ state: 'halted', paused_until: null }] },
    });
  });

  test('belongs to a provider whose clock is a minute off', async () => {
    await sql(
      `update credential set clock_offset_ms = -61000, clock_uncertainty_ms = 500, clock_measured_at = app_now()`,
    );
    expect((await check()).of('clocks')).toMatchObject({
      status: 'failing',
      finding: 'The clocks of database and provider (default) are 61 s apart.',
      details: { providers: [{ name: 'default', offset_seconds: -61 }] },
    });
  });
});

describe('the work', () => {
  test.each([
    [90, 'warning', '90 s'],
    [600, 'failing', '10 min'],
  ])('waits %i seconds for a worker', async (seconds, status, words) => {
    await sql(
      `insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
       values (gen_random_uuid(), $1, 'ready', array[gen_random_uuid()], app_now() - $2 * interval '1 second')`,
      [PROJECT_ID, seconds],
    );
    const { of } = await check();
    expect(of('backlog')).toMatchObject({
      status,
      finding: `Runs ready for their next request waited ${words} for a worker.`,
    });
    await pauseCredential(api.database.db, 'default', 600_000, PAUSE_REASONS.overloaded);
    expect((await check()).of('backlog').status, 'while the key is paused').toBe('ok');
  });

  test('broke an invariant at the last audit', async () => {
    await sql(
      `insert into audit_report (id, project_id, finished_at, violations) values (gen_random_uuid(), $1, app_now(), $2)`,
      [PROJECT_ID, JSON.stringify([{ id: 'I8', name: 'No step is paid twice', row: { id: 'secret' } }])],
    );
    const books = (await check()).of('books');
    expect(books).toMatchObject({
      status: 'failing',
      finding: expect.stringMatching(
        /^The last audit, \d+ s ago, found 1 violation of I8: No step is paid twice\.$/,
      ) as string,
      details: { violations: [{ id: 'I8', money: true }] },
    });
  });

  test('was not audited for two days', async () => {
    await sql(
      `insert into audit_report (id, project_id, started_at, finished_at, violations)
       values (gen_random_uuid(), $1, app_now() - interval '50 hours', app_now() - interval '50 hours', '[]')`,
      [PROJECT_ID],
    );
    expect((await check()).of('books')).toMatchObject({
      status: 'warning',
      finding: 'The last audit ended 2 days ago.',
    });
  });

  test('has secrets of a key that the API does not have', async () => {
    const keys = readSecretsKeys('01'.repeat(32), undefined);
    const sealed = sealSecret({ project_id: PROJECT_ID, agent_id: null, name: 'OLD' }, 'value', keys);
    await inTransaction(api.database.db, (trx) => putSecrets(trx, [sealed]));
    expect((await check()).of('secrets')).toMatchObject({
      status: 'failing',
      finding: `Secrets are encrypted with the key ${keys.current!.id}, which the API does not have.`,
      advice: expect.stringContaining('SECRETS_KEYS_OLD') as string,
      details: { key_id: expect.stringMatching(/^[0-9a-f]{16}$/), missing_key_ids: [keys.current!.id] },
    });
    const withOld = await openWith({ secretsKeys: { current: null, old: [keys.current!] } });
    expect((await check('', withOld)).of('secrets')).toMatchObject({
      status: 'warning',
      details: { missing_key_ids: [] },
    });
    await withOld.close();
    const withKey = await openWith({ secretsKeys: keys });
    expect((await check('', withKey)).of('secrets')).toMatchObject({
      status: 'ok',
      details: { key_id: keys.current!.id, missing_key_ids: [] },
    });
    await withKey.close();
  });

  test('has an agent whose model has no price', async () => {
    const agent = await createAgent(api);
    await sql(`update agent set model = 'anthropic/claude-unheard-of' where id = $1`, [
      agent.slice('agent-'.length),
    ]);
    expect((await check()).of('prices')).toMatchObject({
      status: 'failing',
      finding: expect.stringContaining('lacks anthropic/claude-unheard-of') as string,
      details: { unpriced: [{ model: 'anthropic/claude-unheard-of', agent_id: agent }] },
    });
  });
});

describe('the surroundings', () => {
  test('have a queue that does not answer', async () => {
    const other = await openWith({
      queue: {
        backend: 'redis',
        check: () => Promise.reject(new Error('Cannot use the Redis of QUEUE_URL, redis://127.0.0.1:1')),
      },
    });
    expect((await check('', other)).of('queue')).toMatchObject({
      status: 'warning',
      finding: 'Cannot use the Redis of QUEUE_URL, redis://127.0.0.1:1',
      details: { backend: 'redis' },
    });
    await other.close();
  });

  test.each([
    [100_000_000, 'failing'],
    [3_000_000_000, 'warning'],
    [300_000_000_000, 'ok'],
  ])('have a disk with %i free bytes', async (free_bytes, status) => {
    const other = await openWith({
      disk: async () => ({ free_bytes, total_bytes: 1_000_000_000_000, holds_database: true }),
    });
    expect((await check('', other)).of('disk')).toMatchObject({
      status,
      details: { free_bytes, holds_database: true },
    });
    await other.close();
  });

  test('have a disk that cannot be seen: the check says so', async () => {
    expect((await check()).of('disk')).toMatchObject({
      status: 'ok',
      finding: expect.stringContaining('cannot be seen') as string,
      details: { free_bytes: null, holds_database: null },
    });
  });
});

describe('schedules until a time', () => {
  const inTwoDays = (): string => new Date(Date.now() + 2 * 86_400_000).toISOString();
  const create = async (overrides: object = {}): Promise<string> => {
    const { status, body } = await api.call('POST', '/v1/schedules', {
      name: 'nightly',
      cron: '0 3 * * *',
      time_zone: 'UTC',
      body: { agents: {}, input: 'Go on.' },
      ...overrides,
    });
    expect(status).toBe(200);
    return body.id;
  };

  test('are listed with their ticks, agents and caps', async () => {
    await createAgent(api);
    await createAgent(api);
    const id = await create({ body: { agents: {}, input: 'Go on.', max_cost_usd: 1.5 } });
    const { of } = await check(`?at=${inTwoDays()}`);
    expect(of('schedules')).toMatchObject({
      status: 'ok',
      details: {
        is_cut: false,
        schedules: [
          {
            schedule_id: id,
            name: 'nightly',
            ticks: 2,
            agents: 2,
            open_batch: false,
            max_cost_usd: '1.50',
            left_usd: null,
            last_costs_usd: [],
            problems: [],
          },
        ],
      },
    });
  });

  test('meet a paused key, and no agent', async () => {
    const agent = await createAgent(api);
    await create();
    await api.call('DELETE', `/v1/agents/${agent}`);
    await haltCredential(api.database.db, 'default', 'a test');
    const { of } = await check(`?at=${inTwoDays()}`);
    expect(of('schedules')).toMatchObject({
      status: 'warning',
      details: {
        schedules: [
          {
            problems: [
              'sending under the key default is paused: halted by the audit: a test',
              'it matches no agent, so the tick is refused',
            ],
          },
        ],
      },
    });
  });

  test('meet a cap below the cost of a recent batch', async () => {
    const agent = await createAgent(api);
    const id = await create({ body: { agents: {}, input: 'Go on.', max_cost_usd: 0.01 } });
    const { body: run } = await api.call('POST', `/v1/schedules/${id}/run-now`);
    expect(run).toMatchObject({ job_id: expect.stringMatching(/^job-/) as string });
    const batch = (run.job_id as string).slice('job-'.length);
    await sql(
      `insert into batch_tally (batch_id, slot, project_id, cost_nanousd, completed) values ($1, 0, $2, 20000000, 1)
                on conflict (batch_id, slot) do update set cost_nanousd = 20000000`,
      [batch, PROJECT_ID],
    );
    const before = (await check(`?at=${inTwoDays()}`)).of('schedules');
    expect(before.details?.schedules[0]?.problems).toEqual([
      'its last batch has not ended; until it ends, the tick is skipped',
    ]);
    await sql(
      `update batch set state = 'completed', accepted = total, completed_at = app_now(), next_due_at = null where id = $1`,
      [batch],
    );
    const { status, finding, details } = (await check(`?at=${inTwoDays()}`)).of('schedules');
    expect(status).toBe('warning');
    expect(finding).toContain('its cap is $0.01, and a recent batch cost $0.02');
    expect(details?.schedules[0]?.last_costs_usd).toEqual(['0.02']);
    expect(agent).toMatch(/^agent-/);
  });

  test.each(['2020-01-01T00:00:00Z', '2999-01-01T00:00:00Z', '03:00'])('at=%s is refused', async (at) => {
    const { status, body } = await api.call('GET', `/v1/admin/checks?at=${at}`);
    expect(status).toBe(422);
    expect(JSON.stringify(body)).toContain('at');
  });
});

test('concurrent requests share the checks under way; those for another time wait for their end', async () => {
  const gate = Promise.withResolvers<void>();
  let looks = 0;
  const queue = {
    backend: 'redis' as const,
    check: async () => {
      looks++;
      await gate.promise;
    },
  };
  const other = await openWith({ queue });
  try {
    const at = new Date(Date.now() + 3_600_000).toISOString();
    const answers = Promise.all([check('', other), check('', other), check(`?at=${at}`, other)]);
    await expect.poll(other.arrived).toBe(3);
    expect(looks).toBe(1);
    gate.resolve();
    expect((await answers).map(({ of }) => of('queue').status)).toEqual(['ok', 'ok', 'ok']);
    expect(looks).toBe(2);
    await check('', other);
    expect(looks).toBe(3);
  } finally {
    await other.close();
  }
});

test('a check needs the key', async () => {
  const answer = await api.app.inject({ url: '/v1/admin/checks' });
  expect(answer.statusCode).toBe(401);
});
