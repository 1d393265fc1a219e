import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { threadCpuMs } from '../../../test/cpu-time.ts';
import { checkQueue, listen, openBell, prepareQueue, type Bell, type Signal } from '../src/index.ts';
import { connectQuietly, createDatabase } from './backends.ts';
import { eventually } from './eventually.ts';

/** Drops the queue's tables under whoever uses them, whose statements take their locks in another order. */
async function dropQueue(admin: Awaited<ReturnType<typeof connectQuietly>>): Promise<void> {
  for (;;) {
    try {
      await admin.query('drop schema bullmq cascade');
      return;
    } catch (error) {
      if ((error as { code?: string }).code !== '40P01') throw error;
    }
  }
}

/** Expects that for a while the process has little to do, and its event loop time for others. */
async function expectIdle(begin: () => Promise<void> = () => Promise.resolve()): Promise<void> {
  const [startedAt, startedCpuMs] = [performance.now(), threadCpuMs()];
  const elapsedMs = () => performance.now() - startedAt;
  let ticks = 0;
  const ticker = setInterval(() => (ticks += 1), 10);
  await begin();
  await eventually(elapsedMs).toBeGreaterThan(1_500);
  await eventually(() => ticks).toBeGreaterThan(15);
  clearInterval(ticker);
  expect(threadCpuMs() - startedCpuMs).toBeLessThan(elapsedMs() / 2);
}

describe('Postgres', () => {
  let database: Awaited<ReturnType<typeof createDatabase>>;

  beforeEach(async () => {
    database = await createDatabase();
  });
  afterEach(async () => {
    await database.drop();
  });

  async function openBoth(
    errors: string[] = [],
    queueUrl = database.url,
  ): Promise<{ bell: Bell; heard: Signal[]; close: () => Promise<void> }> {
    const heard: Signal[] = [];
    const onError = ({ message }: Error) => void errors.push(message);
    const listener = await listen({
      queueUrl,
      onControl: (signal) => void heard.push(signal),
      onWork: (signal) => Promise.resolve(void heard.push(signal)),
      onError,
    });
    const bell = await openBell({ queueUrl, onError });
    const close = async () => {
      await Promise.all([bell.close(), listener.close()]);
    };
    return { bell, heard, close };
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

  test('a URL that names its host in the query carries signals', async () => {
    const { username, password, hostname, port, pathname } = new URL(database.url);
    const queueUrl = `postgres://${username}:${password}@${pathname}?host=${hostname}&port=${port}`;
    await prepareQueue(queueUrl);
    const { bell, heard, close } = await openBoth([], queueUrl);
    await ringUntilHeard(bell, heard, 'poll');
    await ringUntilHeard(bell, heard, 'tools');
    await close();
  });

  test('after every connection was terminated, again and again, signals arrive and the process lives', async () => {
    await prepareQueue(database.url);
    const { bell, heard, close } = await openBoth();
    const admin = await connectQuietly(database.url);
    for (let round = 0; round < 5; round += 1) {
      await ringUntilHeard(bell, heard, 'poll');
      await ringUntilHeard(bell, heard, 'tools');
      await Promise.all([
        admin.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
        ),
        bell.ring([{ kind: 'poll', id: randomUUID() }]),
      ]);
    }
    await ringUntilHeard(bell, heard, 'poll');
    await ringUntilHeard(bell, heard, 'tools');
    await close();
    await admin.end();
  });

  test('without its tables the listener says what to do, leaves the event loop alone, and works once they are there', async () => {
    const errors: string[] = [];
    const { bell, heard, close } = await openBoth(errors);
    expect(errors.join()).toMatch(/tables are missing.*run the migrations/);
    await expectIdle();
    await prepareQueue(database.url);
    await ringUntilHeard(bell, heard, 'poll');
    await ringUntilHeard(bell, heard, 'ingest');
    await close();
  });

  test('tables that vanish under a listener do not starve the process, and come back to a working queue', async () => {
    await prepareQueue(database.url);
    const { bell, heard, close } = await openBoth();
    await ringUntilHeard(bell, heard, 'poll');
    const admin = await connectQuietly(database.url);
    await dropQueue(admin);
    await expectIdle(() => bell.ring([{ kind: 'poll', id: randomUUID() }]));
    await prepareQueue(database.url);
    await ringUntilHeard(bell, heard, 'poll');
    await close();
    await admin.end();
  });

  test('any number of processes may prepare at once, and again', async () => {
    await Promise.all(Array.from({ length: 6 }, () => prepareQueue(database.url)));
    await prepareQueue(database.url);
  });

  test('preparing survives that its connection is terminated, and says so', async () => {
    await prepareQueue(database.url);
    const admin = await connectQuietly(database.url);
    const holder = await connectQuietly(database.url);
    await holder.query('begin');
    await holder.query('lock table bullmq.migration in access exclusive mode');
    const outcome = prepareQueue(database.url).then(
      () => 'prepared',
      (error: unknown) => String(error),
    );
    await eventually(async () => {
      const { rowCount } = await admin.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
      return rowCount;
    }).toBe(1);
    expect(await outcome).toMatch(/terminat/);
    await holder.end();
    await admin.end();
  });

  test('preparing as a role without the right to create says what to grant', async () => {
    const role = `poor_${randomUUID().slice(0, 8)}`;
    const admin = await connectQuietly(database.url);
    await admin.query(`create role ${role} login password 'poor'`);
    const url = new URL(database.url);
    url.username = role;
    url.password = 'poor';
    try {
      await expect(prepareQueue(url.href)).rejects.toThrow(/grant it CREATE/);
    } finally {
      await admin.query(`drop role ${role}`);
      await admin.end();
    }
  });

  test('checking or preparing a database that is away fails, and names QUEUE_URL', async () => {
    const url = new URL(database.url);
    url.pathname = '/no_such_database';
    await expect(checkQueue(url.href)).rejects.toThrow(/QUEUE_URL.*no_such_database/);
    await expect(prepareQueue(url.href)).rejects.toThrow(/QUEUE_URL.*no_such_database/);
    // A host with two addresses, of which none answers: the driver's own error is without a message.
    await expect(prepareQueue('postgres://localhost:1/db')).rejects.toThrow(/QUEUE_URL.*ECONNREFUSED/);
  });

  test('options that the URL brings are kept beside ours', async () => {
    await prepareQueue(database.url);
    const url = new URL(database.url);
    url.searchParams.set('options', '-c work_mem=4MB');
    const errors: Error[] = [];
    const bell = await openBell({ queueUrl: url.href, onError: (error) => errors.push(error) });
    await bell.ring([{ kind: 'poll', id: randomUUID() }]);
    await bell.close();
    expect(errors).toEqual([]);
  });

  test('a closed bell and listener leave no connection behind', async () => {
    await prepareQueue(database.url);
    const { bell, heard, close } = await openBoth();
    await ringUntilHeard(bell, heard, 'tools');
    const admin = await connectQuietly(database.url);
    const count = async () => {
      const { rows } = await admin.query<{ n: number }>(
        "select count(*)::int as n from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
      );
      return rows[0]?.n;
    };
    expect(await count()).toBeLessThanOrEqual(2 + 5);
    await close();
    await eventually(count).toBe(0);
    await admin.end();
  });
});
