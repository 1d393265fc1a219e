import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterEach, describe, expect, inject, test } from 'vitest';
import type {} from '../../../test/global-setup.ts';
import { createPool, type PoolOptions } from '../src/index.ts';
import { openRelay } from './fixtures/relay.ts';

const url = inject('postgresUrl');
const pools: pg.Pool[] = [];

afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.end();
});

function open(options: Partial<PoolOptions> = {}): pg.Pool {
  const pool = createPool({ url, ...options });
  pools.push(pool);
  return pool;
}

describe('values', () => {
  test('int8 is a number up to the largest safe integer', async () => {
    const { rows } = await open().query(
      `select count(*) as few, ${Number.MAX_SAFE_INTEGER}::int8 as most, -5::int8 as less, null::int8 as none,
              array[1, null, 3]::int8[] as list, array[[1, 2], [3, 4]]::int8[] as table`,
    );
    expect(rows).toEqual([
      {
        few: 1,
        most: Number.MAX_SAFE_INTEGER,
        less: -5,
        none: null,
        list: [1, null, 3],
        table: [
          [1, 2],
          [3, 4],
        ],
      },
    ]);
  });

  test.each(['9007199254740992::int8', 'array[1, -9007199254740993]::int8[]'])(
    'select %s rejects instead of losing digits, and the connection goes on',
    async (expression) => {
      const pool = open({ max: 1 });
      await expect(pool.query(`select ${expression} as n`)).rejects.toThrow(/which a number cannot hold/);
      expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    },
  );

  test('arrays of uuids are lists of strings, also empty, with nulls, or of two dimensions', async () => {
    const [a, b] = ['01890000-0000-7000-8000-000000000000', 'ffffffff-ffff-7fff-bfff-ffff00000000'];
    const { rows } = await open().query(
      `select array['${a}', '${b}']::uuid[] as list, array['${a}']::uuid[] as one, '{}'::uuid[] as empty,
              array['${a}', null]::uuid[] as gaps, array[['${a}'], ['${b}']]::uuid[] as table,
              '[0:1]={${a},${b}}'::uuid[] as shifted, null::uuid[] as none`,
    );
    expect(rows).toEqual([
      {
        ...{ list: [a, b], one: [a], empty: [], gaps: [a, null] },
        ...{ table: [[a], [b]], shifted: [a, b], none: null },
      },
    ]);
  });

  test('numeric keeps every digit and timestamptz is a Date', async () => {
    const { rows } = await open().query(
      `select 0.1::numeric(30, 20) as price, '2026-11-20T03:00:00+02'::timestamptz as at, current_setting('timezone') as zone`,
    );
    expect(rows).toEqual([
      { price: '0.10000000000000000000', at: new Date('2026-11-20T01:00:00Z'), zone: 'UTC' },
    ]);
  });
});

/** Silence is detected after three seconds, longer than any other query here. */
const SOON = { statementTimeoutMs: 2_000, answerGraceMs: 1_000 };

describe('limits', () => {
  test('a session has the given timeouts and name', async () => {
    const pool = open({
      applicationName: 'pool-test',
      statementTimeoutMs: 4_000,
      lockTimeoutMs: 3_000,
      idleInTransactionTimeoutMs: 2_000,
    });
    const { rows } = await pool.query(
      `select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
              current_setting('idle_in_transaction_session_timeout') as idle, current_setting('application_name') as name`,
    );
    expect(rows).toEqual([{ statement: '4s', lock: '3s', idle: '2s', name: 'pool-test' }]);
  });

  test('the options of the URL are kept, and sessions use UTC', async () => {
    const own = new URL(url);
    own.searchParams.set('options', '-c timezone=Asia/Tokyo -c work_mem=5MB');
    const { rows } = await open({ url: own.href }).query(
      `select current_setting('timezone') as zone, current_setting('work_mem') as memory`,
    );
    expect(rows).toEqual([{ zone: 'UTC', memory: '5MB' }]);
  });

  test('timestamptz is a Date whatever the date style of the role is', async () => {
    const own = new URL(url);
    const role = `dates_${process.pid}`;
    await open().query(`create role ${role} login superuser password 'of-${role}'`);
    try {
      await open().query(`alter role ${role} set datestyle = 'German, DMY'`);
      Object.assign(own, { username: role, password: `of-${role}` });
      for (const options of [null, '-c work_mem=5MB']) {
        if (options !== null) own.searchParams.set('options', options);
        const pool = open({ url: own.href });
        const { rows } = await pool.query(`select '2026-11-03T03:00:00Z'::timestamptz as at`);
        expect(rows).toEqual([{ at: new Date('2026-11-03T03:00:00Z') }]);
      }
    } finally {
      await open().query(`drop role ${role}`);
    }
  });

  test('the server ends a slow statement, and the connection stays usable', async () => {
    const pool = open({ max: 1, statementTimeoutMs: 1_000 });
    await expect(pool.query('select pg_sleep(60)')).rejects.toMatchObject({ code: '57014' });
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  test('a caller gets an error when all connections are busy for too long', async () => {
    const pool = open({ max: 1 });
    const taken = await pool.connect();
    // Set late, because the wait for a new connection has the same limit.
    pool.options.connectionTimeoutMillis = 100;
    await expect(pool.query('select 1')).rejects.toThrow(/timeout/);
    taken.release();
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  test('a connection that becomes silent during a query rejects it and is dropped', async () => {
    const relay = await openRelay(url);
    const errors: Error[] = [];
    const pool = open({
      url: relay.url,
      ...SOON,
      onConnectionError: (error) => errors.push(error),
    });
    try {
      const clients = await Promise.all([pool.connect(), pool.connect(), pool.connect()]);
      const [promised, called, submitted] = clients;
      relay.silence();
      const ends = await Promise.allSettled([
        promised.query('select 1'),
        promisify((done: (error: Error | null) => void) => called.query('select 1', done))(),
        once(submitted.query(new pg.Query('select 1')), 'end'),
      ]);
      for (const end of ends)
        expect(end).toMatchObject({ status: 'rejected', reason: { message: 'Query read timeout' } });
      for (const client of clients) client.release();
      expect(pool.totalCount).toBe(0);
      expect(errors[0]?.message).toBe('Query read timeout');
      expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    } finally {
      relay.close();
    }
  });

  test('an idle connection may be silent without limit, a connection with a query may not', async () => {
    const relay = await openRelay(url);
    const pool = open({ url: relay.url, max: 2, ...SOON });
    try {
      const [resting, asked] = [await pool.connect(), await pool.connect()];
      relay.silence();
      await expect(asked.query('select 1')).rejects.toThrow('Query read timeout');
      relay.deliver();
      expect((await resting.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
      relay.silence();
      await expect(resting.query('select 1')).rejects.toThrow('Query read timeout');
      for (const client of [resting, asked]) client.release();
      expect(pool.totalCount).toBe(0);
    } finally {
      relay.close();
    }
  });

  test('a connection released with an open transaction is not used again', async () => {
    const pool = open({ max: 1 });
    const client = await pool.connect();
    await client.query('begin');
    const before = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    client.release();
    const after = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
    expect(after.rows).not.toEqual(before.rows);
  });

  test('a connection that opens after its caller timed out serves the next caller', async () => {
    const relay = await openRelay(url);
    const pool = open({ url: relay.url, max: 1, connectionTimeoutMs: 6_000 });
    let made = 0;
    pool.on('connect', () => (made += 1));
    try {
      const first = await pool.connect();
      const late = pool.connect();
      late.catch(() => undefined);
      // The connection takes three seconds longer than its caller waits.
      await first.query('select pg_sleep(3)');
      relay.holdAll();
      first.release(new Error('it broke'));
      await expect(late).rejects.toThrow('timeout exceeded when trying to connect');
      const next = pool.query('select 1 as one');
      relay.deliver();
      expect((await next).rows).toEqual([{ one: 1 }]);
      expect(made).toBe(2);
    } finally {
      relay.close();
    }
  });
});

describe('a cut connection', () => {
  test.each(['idle in the pool', 'idle in a transaction', 'amid a query'])(
    '%s: the process lives, the next query on it rejects, others work',
    (moment) => {
      const script = new URL('./fixtures/cut-connection.ts', import.meta.url).pathname;
      const { status, stdout, stderr } = spawnSync(process.execPath, [script, url, moment], {
        encoding: 'utf8',
        timeout: 120_000,
      });
      expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: 'survived\n', stderr: '' });
    },
  );

  test('is reported once per loss, with the message of the server', async () => {
    const errors: Error[] = [];
    const pool = open({ onConnectionError: (error) => errors.push(error) });
    const client = await pool.connect();
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    const cut = new Promise((settle) => client.once('end', settle));
    await open().query('select pg_terminate_backend($1)', [rows[0]!.pid]);
    await cut;
    await expect(client.query('select 1')).rejects.toThrow();
    client.release();
    expect(errors[0]?.message).toMatch(/terminating connection/);
    expect(pool.totalCount).toBe(0);
  });
});
