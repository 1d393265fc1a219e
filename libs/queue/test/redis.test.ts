import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { listen, openBell, prepareQueue, QueueRefusedError, type Bell, type Signal } from '../src/index.ts';
import { eventually } from './eventually.ts';
import { hasRedis, startRedis, type TestRedis } from './redis-server.ts';
import { openTcpGate } from './tcp-gate.ts';

if (!hasRedis) console.warn('skipping what only Redis can do: redis-server is not on the PATH');

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

  test('after FLUSHALL the very next ring arrives', async () => {
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

  test('after SIGKILL and a restart, empty, signals arrive again within seconds', async () => {
    const { bell, heard } = await openBoth('restart');
    await ringUntilHeard(bell, heard, 'poll');
    await redis.kill();
    const startedAt = performance.now();
    for (let n = 0; n < 5; n += 1) await bell.ring([{ kind: 'poll', id: randomUUID() }]);
    expect(performance.now() - startedAt).toBeLessThan(2_500);
    await redis.start();
    await ringUntilHeard(bell, heard, 'poll');
    await ringUntilHeard(bell, heard, 'tools');
  });

  test('a Redis that is full loses the signal and tells why', async () => {
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

  const refuse = () => Promise.reject(new Error('maxmemory-policy is allkeys-lru, set it to noeviction'));

  test('a Redis that the check refuses is refused by everything that opens it, with what the check says and no more', async () => {
    const refused = {
      name: QueueRefusedError.name,
      message: expect.stringContaining('set it to noeviction') as string,
    };
    const common = { queueUrl, prefix: 'refused', onError: () => undefined, checkRedis: refuse };
    await expect(prepareQueue(queueUrl, { checkRedis: refuse })).rejects.toMatchObject(refused);
    await expect(prepareQueue(queueUrl, { checkRedis: refuse })).rejects.not.toHaveProperty('cause');
    await expect(openBell(common)).rejects.toMatchObject(refused);
    await expect(
      listen({ ...common, onControl: () => undefined, onWork: () => Promise.resolve() }),
    ).rejects.toMatchObject(refused);
    await prepareQueue(queueUrl, { checkRedis: () => Promise.resolve() });
  });

  test('a bell opened while Redis was away has it checked when it is back, and does not ring a refused one', async () => {
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
