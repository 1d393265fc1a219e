import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { checkQueue, listen, openBell, type Bell, type Signal } from '../src/index.ts';
import { eventually } from './eventually.ts';
import { hasRedis, startRedis, type TestRedis } from './redis-server.ts';
import { openTcpGate } from './tcp-gate.ts';

if (!hasRedis) console.warn('skipped: the tests of Redis need redis-server on PATH');

describe.runIf(hasRedis)('Redis', () => {
  let redis: TestRedis;
  let queueUrl: string;

  beforeAll(async () => {
    redis = await startRedis();
    queueUrl = `redis://127.0.0.1:${redis.port}`;
    return () => redis.close();
  });

  async function openBoth(prefix: string): Promise<{ bell: Bell; heard: Signal[] }> {
    const heard: Signal[] = [];
    const common = { queueUrl, prefix, onError: () => undefined };
    const listener = await listen({
      ...common,
      onControl: (signal) => void heard.push(signal),
      onWork: (signal) => Promise.resolve(void heard.push(signal)),
    });
    onTestFinished(() => listener.close());
    const bell = await openBell(common);
    onTestFinished(() => bell.close());
    return { bell, heard };
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

  test('after FLUSHALL the next signal arrives', async () => {
    const { bell, heard } = await openBoth('flush');
    await ringUntilHeard(bell, heard, 'poll');
    await ringUntilHeard(bell, heard, 'tools');
    const client = new Redis(queueUrl);
    onTestFinished(() => client.disconnect());
    await client.flushall();
    const signals: Signal[] = [
      { kind: 'poll', id: randomUUID() },
      { kind: 'tools', id: randomUUID() },
    ];
    await bell.ring(signals);
    await eventually(() => heard).toEqual(expect.arrayContaining(signals));
  });

  test('after SIGKILL and an empty restart, signals arrive within seconds', async () => {
    const { bell, heard } = await openBoth('restart');
    await ringUntilHeard(bell, heard, 'poll');
    await redis.kill();
    const startedAt = performance.now();
    for (let n = 0; n < 20; n += 1) await bell.ring([{ kind: 'poll', id: randomUUID() }]);
    expect(performance.now() - startedAt, 'not a second for each').toBeLessThan(15_000);
    await redis.start();
    await ringUntilHeard(bell, heard, 'poll');
    await ringUntilHeard(bell, heard, 'tools');
  });

  test('a full Redis loses the signal, and the reason is reported', async () => {
    const client = new Redis(queueUrl);
    onTestFinished(() => client.disconnect());
    const errors: string[] = [];
    const bell = await openBell({ queueUrl, prefix: 'full', onError: ({ message }) => errors.push(message) });
    onTestFinished(() => bell.close());
    await client.config('SET', 'maxmemory', '1');
    onTestFinished(async () => {
      await client.config('SET', 'maxmemory', '0');
    });
    await bell.ring([{ kind: 'poll', id: randomUUID() }]);
    expect(errors.join()).toMatch(/OOM/);
  });

  const refuse = () => Promise.resolve('maxmemory-policy is allkeys-lru, set it to noeviction');

  test('bell, listener and check refuse a Redis with the reason of the check and nothing else', async () => {
    const refused = {
      code: 'bad_configuration',
      message: expect.stringContaining('set it to noeviction') as string,
    };
    const common = { queueUrl, prefix: 'refused', onError: () => undefined, checkRedis: refuse };
    await expect(checkQueue(queueUrl, { checkRedis: refuse })).rejects.toMatchObject(refused);
    await expect(openBell(common)).rejects.toMatchObject(refused);
    await expect(
      listen({ ...common, onControl: () => undefined, onWork: () => Promise.resolve() }),
    ).rejects.toMatchObject(refused);
    await checkQueue(queueUrl, { checkRedis: () => Promise.resolve(null) });
  });

  test('a Redis that goes away during its check is retried and checked again', async () => {
    const gone = Object.assign(new Error('ERR max number of clients reached'), { command: 'AUTH secret' });
    const checkRedis = vi.fn(() => Promise.resolve(null)).mockRejectedValueOnce(gone);
    const errors: Error[] = [];
    const heard: Signal[] = [];
    const common = {
      queueUrl,
      prefix: 'half',
      checkRedis,
      onError: (error: Error) => void errors.push(error),
    };
    const listener = await listen({
      ...common,
      onControl: (signal) => void heard.push(signal),
      onWork: () => Promise.resolve(),
    });
    onTestFinished(() => listener.close());
    checkRedis.mockRejectedValueOnce(gone);
    const bell = await openBell(common);
    onTestFinished(() => bell.close());
    await ringUntilHeard(bell, heard, 'poll');
    expect(errors[0]?.message).toContain(gone.message);
    expect(inspect(errors, { depth: null })).not.toContain('secret');
    checkRedis.mockRejectedValueOnce(gone);
    await expect(checkQueue(queueUrl, { checkRedis })).rejects.toEqual(new Error(gone.message));
  });

  describe('a slow check', () => {
    /** Returns a bell under opening, `ms` after its check began. */
    async function openingFor(ms: number) {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      onTestFinished(() => void vi.useRealTimers());
      const asked = Promise.withResolvers<undefined>();
      const found = Promise.withResolvers<string | null>();
      const errors: string[] = [];
      const opening = openBell({
        queueUrl,
        prefix: 'slow',
        onError: ({ message }) => errors.push(message),
        checkRedis: () => {
          asked.resolve(undefined);
          return found.promise;
        },
      });
      await asked.promise;
      await vi.advanceTimersByTimeAsync(ms);
      return { opening, errors, find: found.resolve };
    }

    test('is awaited when a bell is opened, so that a refusal throws', async () => {
      const { opening, find } = await openingFor(2_900);
      find('maxmemory-policy is allkeys-lru');
      await expect(opening).rejects.toMatchObject({ code: 'bad_configuration' });
    });

    test('times out, and the Redis counts as away', async () => {
      const { opening, errors } = await openingFor(3_000);
      const bell = await opening;
      vi.useRealTimers();
      await bell.close();
      expect(errors).toEqual([expect.stringContaining('checking Redis took longer than 3000 ms')]);
    });
  });

  test('a bell opened during an outage checks Redis after it, and does not use a refused one', async () => {
    const gate = await openTcpGate(redis.port);
    onTestFinished(() => gate.close());
    await gate.cut();
    let asked = 0;
    const errors: string[] = [];
    const bell = await openBell({
      queueUrl: `redis://127.0.0.1:${gate.port}`,
      prefix: 'unchecked',
      onError: ({ message }) => errors.push(message),
      checkRedis: () => {
        asked += 1;
        return refuse();
      },
    });
    onTestFinished(() => bell.close());
    expect(asked).toBe(0);
    await gate.open();
    await eventually(async () => {
      await bell.ring([{ kind: 'poll', id: randomUUID() }]);
      return errors.join();
    }).toContain('set it to noeviction');
    const client = new Redis(queueUrl);
    onTestFinished(() => client.disconnect());
    expect(await client.keys('unchecked:*:wait')).toEqual([]);
  });
});
