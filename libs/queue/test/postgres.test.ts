import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { checkQueue, listen, openBell, type Bell, type ListenOptions, type Signal } from '../src/index.ts';
import { connectQuietly, createDatabase, listenRaw } from './backends.ts';
import { eventually } from './eventually.ts';
import { openTcpGate, withoutNotifications } from './tcp-gate.ts';

describe('Postgres', () => {
  let database: Awaited<ReturnType<typeof createDatabase>>;

  beforeEach(async () => {
    database = await createDatabase();
  });
  afterEach(async () => {
    await database.drop();
  });

  async function openListener(
    options: Partial<ListenOptions> = {},
  ): Promise<{ heard: Signal[]; errors: string[]; isAlive: () => boolean; close: () => Promise<void> }> {
    const heard: Signal[] = [];
    const errors: string[] = [];
    const { close, isAlive } = await listen({
      queueUrl: database.url,
      onControl: (signal) => void heard.push(signal),
      onWork: (signal) => Promise.resolve(void heard.push(signal)),
      onError: ({ message }) => void errors.push(message),
      ...options,
    });
    onTestFinished(close);
    return { heard, errors, isAlive, close };
  }

  async function openTestBell(queueUrl = database.url): Promise<{ bell: Bell; errors: string[] }> {
    const errors: string[] = [];
    const onError = ({ message }: Error) => void errors.push(message);
    const bell = await openBell({ queueUrl, onError, ringTimeoutMs: 20_000 });
    onTestFinished(() => bell.close());
    return { bell, errors };
  }

  async function admin() {
    const client = await connectQuietly(database.url);
    onTestFinished(() => client.end());
    return client;
  }

  async function ringUntilHeard(bell: Bell, heard: Signal[], kind: Signal['kind']): Promise<void> {
    heard.length = 0;
    await eventually(
      async () => {
        await bell.ring([{ kind, id: randomUUID() }]);
        return heard.some((signal) => signal.kind === kind);
      },
      { timeout: 15_000, interval: 100 },
    ).toBe(true);
  }

  test('a URL with its host in the query works', async () => {
    const { username, password, hostname, port, pathname } = new URL(database.url);
    const queueUrl = `postgres://${username}:${password}@${pathname}?host=${hostname}&port=${port}`;
    const { heard } = await openListener({ queueUrl });
    const { bell } = await openTestBell(queueUrl);
    await ringUntilHeard(bell, heard, 'poll');
    await ringUntilHeard(bell, heard, 'tools');
  });

  test('the options of the URL are kept', async () => {
    const url = new URL(database.url);
    url.searchParams.set('options', '-c work_mem=4MB');
    const { bell, errors } = await openTestBell(url.href);
    await bell.ring([{ kind: 'poll', id: randomUUID() }]);
    expect(errors).toEqual([]);
  });

  test('each of eight listeners receives every signal', async () => {
    const listeners = await Promise.all(Array.from({ length: 8 }, () => openListener()));
    const bells = await Promise.all(Array.from({ length: 8 }, () => openTestBell()));
    const signals = bells.map((): Signal => ({ kind: 'compose', id: randomUUID() }));
    await Promise.all(bells.map(({ bell }, n) => bell.ring([signals[n]!])));
    for (const { heard, errors } of listeners) {
      await eventually(() => new Set(heard.map(({ id }) => id))).toEqual(
        new Set(signals.map(({ id }) => id)),
      );
      expect(errors).toEqual([]);
    }
  });

  test('a payload holds kind and id, far below the size limit, and simultaneous rings send one signal per kind', async () => {
    const heard: string[] = [];
    const raw = await listenRaw(database.url, 'nightshift', (payload) => heard.push(payload));
    onTestFinished(() => raw.end());
    const { bell, errors } = await openTestBell();
    const kinds = ['poll', 'tools'] as const;
    const rings = Array.from({ length: 500 }, (_, n): Signal => ({ kind: kinds[n % 2]!, id: randomUUID() }));
    const alone = { kind: 'webhook', id: randomUUID() } as const;
    await Promise.all([...rings, alone].map((signal) => bell.ring([signal])));
    await eventually(() => heard.map((payload): unknown => JSON.parse(payload))).toEqual(
      expect.arrayContaining([alone]),
    );
    const signals = heard.map((payload) => JSON.parse(payload) as Signal);
    expect(signals.every((signal) => Object.keys(signal).join() === 'kind,id')).toBe(true);
    expect(new Set(signals.map(({ kind }) => kind))).toEqual(new Set([...kinds, 'webhook']));
    expect(signals.length).toBeLessThan(20);
    expect(Math.max(...heard.map((payload) => payload.length))).toBeLessThan(100);
    expect(errors).toEqual([]);
  });

  test('a busy listener handles the signals of the meantime afterwards, once for each kind', async () => {
    const taken: { signal: Signal; done: () => void }[] = [];
    const { heard } = await openListener({
      onWork: (signal) => new Promise<void>((done) => void taken.push({ signal, done })),
    });
    const { bell } = await openTestBell();
    const first: Signal = { kind: 'ingest', id: randomUUID() };
    await bell.ring([first]);
    await eventually(() => taken.length).toBe(1);
    const tools: Signal = { kind: 'tools', id: randomUUID() };
    await bell.ring([tools]);
    for (let n = 0; n < 3; n += 1) await bell.ring([{ kind: 'ingest', id: randomUUID() }]);
    await ringUntilHeard(bell, heard, 'poll');
    expect(taken).toHaveLength(1);
    for (let n = 1; n < 3; n += 1) {
      taken[n - 1]?.done();
      await eventually(() => taken.length).toBe(n + 1);
    }
    expect(taken.map(({ signal }) => signal)).toEqual([first, tools, { kind: 'ingest', id: '*' }]);
    taken[2]?.done();
    await ringUntilHeard(bell, heard, 'poll');
    expect(taken).toHaveLength(3);
  });

  test('without a listener signals leave neither tables nor a backlog', async () => {
    const { bell, errors } = await openTestBell();
    for (let n = 0; n < 20; n += 1) await bell.ring([{ kind: 'poll', id: randomUUID() }]);
    const client = await admin();
    const { rows } = await client.query(
      `select (select count(*)::int from pg_class where relnamespace::regnamespace::text !~ '^pg_|^information_schema$') as relations,
              pg_notification_queue_usage() as backlog`,
    );
    expect(rows).toEqual([{ relations: 0, backlog: 0 }]);
    expect(errors).toEqual([]);
  });

  test('a lost connection is reopened, and onReopened is called once', async () => {
    let reopened = 0;
    const { heard, isAlive } = await openListener({ onReopened: () => (reopened += 1) });
    const { bell } = await openTestBell();
    await ringUntilHeard(bell, heard, 'poll');
    expect(reopened).toBe(0);
    const client = await admin();
    await client.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    );
    await eventually(() => reopened).toBe(1);
    expect(isAlive()).toBe(true);
    await ringUntilHeard(bell, heard, 'poll');
    expect(reopened).toBe(1);
  });

  test('signals arrive after all connections were terminated several times', async () => {
    const { heard } = await openListener();
    const { bell } = await openTestBell();
    const client = await admin();
    for (let round = 0; round < 5; round += 1) {
      await ringUntilHeard(bell, heard, 'poll');
      await ringUntilHeard(bell, heard, 'tools');
      await Promise.all([
        client.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
        ),
        bell.ring([{ kind: 'poll', id: randomUUID() }]),
      ]);
    }
    await ringUntilHeard(bell, heard, 'poll');
    await ringUntilHeard(bell, heard, 'tools');
  });

  test('a listener behind a pooler that drops notifications reports it once and stays open', async () => {
    const gate = await openTcpGate(Number(new URL(database.url).port), withoutNotifications);
    onTestFinished(() => gate.close());
    const url = new URL(database.url);
    url.port = String(gate.port);
    const { errors, isAlive } = await openListener({ queueUrl: url.href });
    expect(errors).toEqual([
      expect.stringMatching(/signals do not arrive; the sweep still finds all work.*PgBouncer/),
    ]);
    expect(isAlive()).toBe(true);
    const { bell } = await openTestBell(url.href);
    const { heard } = await openListener();
    await ringUntilHeard(bell, heard, 'poll');
  });

  test('a role without rights in the database can ring and listen', async () => {
    const role = `poor_${randomUUID().slice(0, 8)}`;
    const client = await admin();
    await client.query(`create role ${role} login password 'poor'`);
    const url = Object.assign(new URL(database.url), { username: role, password: 'poor' });
    try {
      await checkQueue(url.href);
      const { heard, close } = await openListener({ queueUrl: url.href });
      const { bell } = await openTestBell(url.href);
      await ringUntilHeard(bell, heard, 'poll');
      await Promise.all([bell.close(), close()]);
    } finally {
      await client.query(`drop role ${role}`);
    }
  });

  test('the check of an unreachable database fails and names QUEUE_URL', async () => {
    const url = new URL(database.url);
    url.pathname = '/no_such_database';
    await expect(checkQueue(url.href)).rejects.toThrow(/QUEUE_URL.*no_such_database/);
    // A host with two unreachable addresses: the driver's error has no message.
    await expect(checkQueue('postgres://localhost:1/db')).rejects.toThrow(/QUEUE_URL.*ECONNREFUSED/);
  });

  test('a bell and a listener use one connection each, and close it', async () => {
    const { heard, close } = await openListener();
    const { bell } = await openTestBell();
    await ringUntilHeard(bell, heard, 'tools');
    const client = await admin();
    const count = async () => {
      const { rows } = await client.query<{ n: number }>(
        "select count(*)::int as n from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
      );
      return rows[0]?.n;
    };
    await eventually(count).toBe(2);
    await Promise.all([bell.close(), close()]);
    await eventually(count).toBe(0);
  });
});
