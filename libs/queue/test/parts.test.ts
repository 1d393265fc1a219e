import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { listen, openBell, parseQueueUrl, queueOf, type Signal, type SignalKind } from '../src/index.ts';
import type { SendingLink } from '../src/port.ts';
import { createReopeningLink } from '../src/reopening-link.ts';
import { throttleErrors } from '../src/report.ts';
import { addByKind, coalesce, MAX_SIGNALS_PER_RING, parseSignal, SIGNAL_KINDS } from '../src/signal.ts';
import { createConsumer } from '../src/consumer.ts';

describe('a signal', () => {
  const id = randomUUID();

  test.each(SIGNAL_KINDS)('%s is valid with a uuid or a star', (kind) => {
    expect(parseSignal({ kind, id })).toEqual({ kind, id });
    expect(parseSignal({ kind, id: '*' })).toEqual({ kind, id: '*' });
  });

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a string', 'poll'],
    ['an array', ['poll', id]],
    ['an empty object', {}],
    ['an unknown kind', { kind: 'launch', id }],
    ['a kind from the prototype', { kind: 'constructor', id }],
    ['no id', { kind: 'poll' }],
    ['a numeric id', { kind: 'poll', id: 7 }],
    ['a wire id', { kind: 'poll', id: `run-${id}` }],
    ['an id with a line break', { kind: 'poll', id: `${id}\n` }],
    ['an id that is too long', { kind: 'poll', id: id.repeat(2) }],
    ['more than kind and id', { kind: 'poll', id, data: 1 }],
  ])('%s is malformed', (_case, payload) => {
    expect(parseSignal(payload)).toBeUndefined();
  });

  test('only ingest and tools are work signals', () => {
    expect(SIGNAL_KINDS.filter((kind) => queueOf(kind) === 'work')).toEqual(['ingest', 'tools', 'trial']);
  });

  test('the maximum of signals is sent individually', () => {
    const signals = Array.from({ length: MAX_SIGNALS_PER_RING }, (): Signal => ({
      kind: 'tools',
      id: randomUUID(),
    }));
    expect(coalesce([...signals, ...signals])).toEqual({ signals, malformed: 0 });
  });
});

test('signals for several rows of a kind become a star; a single row keeps its id', () => {
  const byKind = new Map<SignalKind, Signal>();
  const [one, other] = [randomUUID(), randomUUID()];
  for (const id of [one, one]) addByKind(byKind, { kind: 'poll', id });
  for (const id of [one, other]) addByKind(byKind, { kind: 'tools', id });
  expect([...byKind.values()]).toEqual([
    { kind: 'poll', id: one },
    { kind: 'tools', id: '*' },
  ]);
});

describe('a queue URL', () => {
  test.each([
    ['redis://localhost', 'redis'],
    ['rediss://user:secret@host:6380/2', 'redis'],
    ['postgres://localhost/db', 'postgres'],
    ['postgresql://u:p@host:5432/db?sslmode=require', 'postgres'],
    ['none', 'none'],
  ])('%s selects %s', (url, backend) => {
    expect(parseQueueUrl(url)).toMatchObject({ url, backend, prefix: 'nightshift' });
  });

  test.each([
    'redis:/u:S3CRET@h',
    'postgres:u:S3CRET@h',
    'postgres:///u:S3CRET@h/db',
    'redis://u:1/S3CRET@h',
  ])('the misspelt %s is refused and not quoted', (url) => {
    expect(() => parseQueueUrl(url)).toThrow(/^QUEUE_URL is not usable: (?!.*S3CRET)/);
  });

  test('an undecodable password without a host is refused by the name of the variable', () => {
    expect(() => parseQueueUrl('postgres://me:p%ss@/app?host=/tmp')).toThrow('QUEUE_URL is not usable');
  });

  test('a user without a host, as for a socket, is moved to the query', () => {
    const { backend, url } = parseQueueUrl(
      'postgres://me:p%40ss@/app?host=/var/run/postgresql&sslmode=disable',
    );
    const { protocol, pathname, searchParams } = new URL(url);
    expect({ backend, protocol, pathname, ...Object.fromEntries(searchParams) }).toEqual({
      backend: 'postgres',
      protocol: 'postgres:',
      pathname: '/app',
      host: '/var/run/postgresql',
      sslmode: 'disable',
      user: 'me',
      password: 'p@ss',
    });
  });

  test.each(['', 'None', 'http://u:topsecret@host', 'localhost:6379', 'amqp://topsecret@h'])(
    '%j is refused by name and without being repeated',
    async (queueUrl) => {
      const onError = () => undefined;
      for (const opening of [
        openBell({ queueUrl, onError }),
        listen({ queueUrl, onError, onControl: () => undefined, onWork: () => Promise.resolve() }),
      ]) {
        await expect(opening).rejects.toThrow(/^QUEUE_URL is not usable: (?!.*topsecret)/);
      }
    },
  );

  test.each(['', 'a:b', 'x'.repeat(49)])('the prefix %j is refused', (prefix) => {
    expect(() => parseQueueUrl('none', prefix)).toThrow(/queue prefix/);
  });

  test.each<[string, object]>([
    ['idlePollMs', { idlePollMs: 0 }],
    ['silentAfterMs', { silentAfterMs: 5_000 }],
    ['closeTimeoutMs', { closeTimeoutMs: Number.NaN }],
  ])('a bad %s is named', async (field, options) => {
    const listening = listen({
      queueUrl: 'none',
      onError: () => undefined,
      onControl: () => undefined,
      onWork: () => Promise.resolve(),
      ...options,
    });
    await expect(listening).rejects.toThrow(field);
  });
});

describe('reported errors', () => {
  test('are passed on once in ten seconds, whatever their numbers, then with the count of suppressed ones', () => {
    let nowMs = 0;
    const said: string[] = [];
    const report = throttleErrors(
      ({ message }) => said.push(message),
      () => nowMs,
    );
    for (let n = 0; n < 50; n += 1) report(new Error(`Missing key for job ${n}`));
    report(new Error('something else'));
    nowMs = 10_000;
    report(new Error('Missing key for job 51'));
    expect(said).toEqual([
      'queue: Missing key for job 0',
      'queue: something else',
      'queue: Missing key for job 51 (and 49 more like it before)',
    ]);
  });

  test('have no properties of the client library, which may hold a password', () => {
    const said: Error[] = [];
    const report = throttleErrors((error) => said.push(error));
    report(Object.assign(new Error('WRONGPASS'), { command: { name: 'auth', args: ['user', 'topsecret'] } }));
    expect(Object.keys(said[0] ?? {})).toEqual([]);
    expect(said[0]?.stack).toMatch(/^Error: queue: WRONGPASS\n {4}at /);
  });

  test('use the code when several addresses failed without a message', () => {
    const said: string[] = [];
    const report = throttleErrors(({ message }) => said.push(message));
    report(Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }));
    report('just words');
    expect(said).toEqual(['queue: ECONNREFUSED', 'queue: just words']);
  });

  test('are harmless when `onError` throws', () => {
    const report = throttleErrors(() => {
      throw new Error('disk full');
    });
    expect(() => {
      report(new Error('x'));
    }).not.toThrow();
  });

  test('of ever new kinds use bounded memory', () => {
    let said = 0;
    const report = throttleErrors(() => (said += 1));
    const word = (n: number) => n.toString(2).replaceAll('0', 'a').replaceAll('1', 'b');
    for (let n = 0; n < 1_000; n += 1) report(new Error(word(n)));
    expect(said).toBe(1_000);
  });
});

describe('a consumer', () => {
  test('handles one signal at a time across all connections', async () => {
    const done: (() => void)[] = [];
    const consumer = createConsumer('work', () => new Promise((resolve) => void done.push(resolve)));
    const all = Array.from({ length: 4 }, () => consumer.handle({}));
    for (let n = 0; n < 4; n += 1) {
      await Promise.resolve();
      expect(done).toHaveLength(n + 1);
      expect(consumer.isBusy()).toBe(true);
      done[n]?.();
      await all[n];
    }
    expect(consumer.isBusy()).toBe(false);
  });

  test('rejects waiting and later signals once it is shut', async () => {
    let release: (() => void) | undefined;
    let taken = 0;
    const consumer = createConsumer('work', () => {
      taken += 1;
      return new Promise((resolve) => (release = resolve));
    });
    const first = consumer.handle({});
    const second = consumer.handle({});
    consumer.shut();
    await expect(second).rejects.toThrow(/not listening/);
    await expect(consumer.handle({})).rejects.toThrow(/not listening/);
    release?.();
    await first;
    expect(taken).toBe(1);
  });

  test('is never silent while it is busy', async () => {
    let release: (() => void) | undefined;
    const consumer = createConsumer('work', () => new Promise((resolve) => (release = resolve)));
    expect(consumer.isSilent(-1)).toBe(true);
    const handling = consumer.handle({});
    expect(consumer.isSilent(-1)).toBe(false);
    release?.();
    await handling;
    expect(consumer.isSilent(-1)).toBe(true);
    expect(consumer.isSilent(60_000)).toBe(false);
  });
});

describe('the link of a bell', () => {
  function fakeLink(): SendingLink & { discarded: number } {
    const link = {
      discarded: 0,
      send: () => Promise.resolve(),
      discard: () => {
        link.discarded += 1;
        return Promise.resolve();
      },
    };
    return link;
  }

  test('is opened once for all callers, and again after it failed', async () => {
    const opened: ReturnType<typeof fakeLink>[] = [];
    const holder = createReopeningLink(() => {
      opened.push(fakeLink());
      return Promise.resolve(opened.at(-1) as SendingLink);
    }, 60_000);
    const [one, two] = await Promise.all([holder.current(), holder.current()]);
    expect(one).toBe(two);
    holder.replace(one);
    holder.replace(one);
    expect(holder.isOpen()).toBe(false);
    expect(await holder.current()).not.toBe(one);
    expect(opened.map(({ discarded }) => discarded)).toEqual([1, 0]);
    await holder.close();
    expect(opened.map(({ discarded }) => discarded)).toEqual([1, 1]);
    await expect(holder.current()).rejects.toThrow(/closed/);
  });

  test('is not retried at once after a failure to open', async () => {
    let attempts = 0;
    const holder = createReopeningLink(() => {
      attempts += 1;
      return Promise.reject(new Error('away'));
    }, 60_000);
    for (let n = 0; n < 3; n += 1) await expect(holder.current()).rejects.toThrow('away');
    expect(attempts).toBe(1);
  });

  test('is discarded when it opens after the bell was closed', async () => {
    const link = fakeLink();
    let finish: ((link: SendingLink) => void) | undefined;
    const holder = createReopeningLink(() => new Promise((resolve) => (finish = resolve)), 0);
    const opening = holder.current();
    const closing = holder.close();
    finish?.(link);
    await expect(opening).rejects.toThrow(/closed/);
    await closing;
    expect(link.discarded).toBe(1);
  });
});
