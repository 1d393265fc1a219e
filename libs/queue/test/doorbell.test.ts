import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { listen, openBell, type Bell, type Listener, type ListenOptions, type Signal } from '../src/index.ts';
import { backendStarters, type TestBackend } from './backends.ts';
import { eventually } from './eventually.ts';
import { openTcpGate, refusedPort, type TcpGate } from './tcp-gate.ts';

/** The default timeout of a ring, for tests without a backend. */
const RING_TIMEOUT_MS = 1_000;
const quick = { idlePollMs: 500, silentAfterMs: 10_000 };
/** A short time without answers, for tests of silence; other tests allow for a busy machine. */
const SOON_SILENT = { silentAfterMs: 2_000 };
/** Upper limit for operations that are bounded by a few seconds, on a busy machine. */
const NO_HANG_MS = 30_000;

for (const { name, missing } of backendStarters) {
  if (missing === undefined) continue;
  console.warn(`skipping the bell over ${name}: ${missing}`);
  describe.skip(`the bell over ${name}`, () => {
    test(missing, () => undefined);
  });
}

describe.each(backendStarters.filter(({ missing }) => missing === undefined))(
  'the bell over $name',
  ({ name, start }) => {
    let backend: TestBackend;
    let prefix: string;
    const closers: (() => Promise<void>)[] = [];

    beforeAll(async () => {
      backend = await start();
      return () => backend.close();
    });
    afterEach(async () => {
      for (const close of closers.splice(0).reverse()) await close();
    });

    /** Opens a bell with a log of its errors. Its timeout allows for a busy machine. */
    async function bellOn(
      queueUrl: string,
      ringTimeoutMs = 20_000,
    ): Promise<Bell & { readonly errors: Error[] }> {
      const errors: Error[] = [];
      const bell = await openBell({
        queueUrl,
        prefix,
        ringTimeoutMs,
        onError: (error) => errors.push(error),
      });
      closers.push(() => bell.close());
      return Object.assign(bell, { errors });
    }

    async function listenOn(
      queueUrl: string,
      options: Partial<ListenOptions> = {},
    ): Promise<{ listener: Listener; heard: Signal[]; errors: Error[] }> {
      const heard: Signal[] = [];
      const errors: Error[] = [];
      const listener = await listen({
        queueUrl,
        prefix,
        onControl: (signal) => void heard.push(signal),
        onWork: (signal) => Promise.resolve(void heard.push(signal)),
        onError: (error) => errors.push(error),
        ...quick,
        ...options,
      });
      closers.push(() => listener.close());
      return { listener, heard, errors };
    }

    async function gated(): Promise<{ gate: TcpGate; url: string }> {
      const gate = await openTcpGate(backend.port);
      closers.push(() => gate.close());
      return { gate, url: backend.url(gate.port) };
    }

    /** Rings for new rows until a signal is received. */
    async function expectHeard(bell: Bell, heard: Signal[], kind: Signal['kind'] = 'poll'): Promise<void> {
      await eventually(
        async () => {
          const signal = { kind, id: randomUUID() };
          await bell.ring([signal]);
          return heard.some((other) => other.kind === kind);
        },
        { timeout: 20_000, interval: 200 },
      ).toBe(true);
    }

    test('every signal arrives at the handler of its kind', async () => {
      prefix = 'arrives';
      const waiting = await backend.watch(prefix);
      // On Postgres simultaneous signals of one kind become one.
      const missing = (taken: Signal[], rung: Signal[]): Signal[] =>
        rung.filter(
          ({ kind, id }) =>
            !taken.some((other) => other.id === id || (name === 'postgres' && isStarOf(kind, other))),
        );
      const control: Signal[] = [];
      const { listener, heard } = await listenOn(backend.url(), {
        onControl: (signal) => void control.push(signal),
      });
      const bell = await bellOn(backend.url());
      const short = Array.from({ length: 60 }, (): Signal => ({ kind: 'submit', id: randomUUID() }));
      const long = Array.from({ length: 20 }, (): Signal => ({ kind: 'ingest', id: randomUUID() }));
      const rings = [short.slice(0, 30), long, ...short.slice(30).map((one) => [one])];
      // More parallel rings than connections, but few enough that none waits too long.
      while (rings.length > 0) await Promise.all(rings.splice(0, 8).map((signals) => bell.ring(signals)));
      await eventually(() => missing(control, short)).toEqual([]);
      await eventually(() => missing(heard, long)).toEqual([]);
      expect(listener.isAlive()).toBe(true);
      expect(listener.droppedSignals).toBe(0);
      expect(bell.errors).toEqual([]);
      expect(control.every(({ kind }) => kind === 'submit')).toBe(true);
      expect(heard.every(({ kind }) => kind === 'ingest')).toBe(true);
      if (name === 'redis') expect(await waiting('control')).toEqual([]);
    });

    test('a payload holds only kind and id, and equal signals are sent once', async () => {
      prefix = 'payload';
      const sent = await backend.watch(prefix);
      const bell = await bellOn(backend.url());
      const finish = { kind: 'finish', id: randomUUID(), secret: 'no' } as const;
      const poll = { kind: 'poll', id: '*' } as const;
      const tools = { kind: 'tools', id: randomUUID() } as const;
      await bell.ring([poll, tools, poll, { ...poll }, finish]);
      expect(await sent('control')).toEqual([poll]);
      expect(await sent('work')).toEqual([tools]);
      expect(bell.errors.map(({ message }) => message)).toEqual(['queue: 1 malformed signals were not sent']);
    });

    test('very many signals become one per kind', async () => {
      prefix = 'many';
      const sent = await backend.watch(prefix);
      const bell = await bellOn(backend.url());
      const signals = Array.from({ length: 5_000 }, (_, n): Signal => ({
        kind: n % 2 ? 'compose' : 'poll',
        id: randomUUID(),
      }));
      await bell.ring(signals);
      expect(await sent('control')).toEqual([
        { kind: 'poll', id: '*' },
        { kind: 'compose', id: '*' },
      ]);
    });

    test('a malformed payload is dropped and counted, and the next signal arrives', async () => {
      prefix = 'forged';
      const { listener, heard, errors } = await listenOn(backend.url());
      await backend.forge(prefix, 'control', { kind: 'launch', id: randomUUID() });
      await backend.forge(prefix, 'control', { kind: 'poll', id: "'; drop table runs" });
      await backend.forge(prefix, 'work', { kind: 'ingest', id: randomUUID(), data: 'x'.repeat(1_000) });
      await backend.forge(prefix, 'work', 'not even an object');
      await eventually(() => listener.droppedSignals).toBe(4);
      expect(heard).toEqual([]);
      await expectHeard(await bellOn(backend.url()), heard, 'poll');
      await expectHeard(await bellOn(backend.url()), heard, 'tools');
      expect(errors).toEqual([]);
    });

    test('an error of a handler is reported, and later signals arrive', async () => {
      prefix = 'throws';
      let controls = 0;
      let works = 0;
      const { errors } = await listenOn(backend.url(), {
        onControl: () => {
          controls += 1;
          throw new Error('control trouble');
        },
        onWork: () => {
          works += 1;
          return Promise.reject(new Error('work trouble'));
        },
      });
      const bell = await bellOn(backend.url());
      for (let n = 0; n < 3; n += 1) {
        await bell.ring([
          { kind: 'poll', id: randomUUID() },
          { kind: 'ingest', id: randomUUID() },
        ]);
      }
      await eventually(() => [controls, works]).toEqual([3, 3]);
      await eventually(() => errors.map(({ message }) => message).sort()).toEqual([
        'queue: control trouble',
        'queue: work trouble',
      ]);
    });

    test('a control handler is not awaited', async () => {
      prefix = 'unawaited';
      const heard: Signal[] = [];
      await listenOn(backend.url(), {
        onControl: (signal) => {
          heard.push(signal);
          return new Promise(() => undefined);
        },
      });
      const bell = await bellOn(backend.url());
      for (let n = 0; n < 5; n += 1) await bell.ring([{ kind: 'cancel', id: randomUUID() }]);
      await eventually(() => heard.length).toBe(5);
    });

    test.runIf(name === 'redis')(
      'two listeners share the work, and one that is busy gets no second signal',
      async () => {
        prefix = 'shared';
        const waiting = await backend.watch(prefix);
        const taken: { by: string; done: () => void }[] = [];
        const controls: Signal[] = [];
        for (const by of ['first', 'second']) {
          await listenOn(backend.url(), {
            onControl: (signal) => void controls.push(signal),
            onWork: () => new Promise<void>((done) => void taken.push({ by, done })),
          });
        }
        const bell = await bellOn(backend.url());
        const ingest = (): Signal => ({ kind: 'ingest', id: randomUUID() });
        await bell.ring([ingest(), ingest(), ingest(), ingest()]);
        await eventually(() => taken.map(({ by }) => by).sort()).toEqual(['first', 'second']);
        // For longer than an idle poll both receive control signals and take no further work signal.
        const until = performance.now() + 2 * quick.idlePollMs;
        while (performance.now() < until) {
          const before = controls.length;
          await bell.ring([{ kind: 'poll', id: randomUUID() }]);
          await eventually(() => controls.length).toBeGreaterThan(before);
        }
        expect(taken).toHaveLength(2);
        expect(await waiting('work')).toHaveLength(2);
        taken[0]?.done();
        await eventually(() => taken.length).toBe(3);
        expect(taken[2]?.by).toBe(taken[0]?.by);
        for (let n = 1; n < 4; n += 1) {
          await eventually(() => taken.length).toBeGreaterThan(n);
          taken[n]?.done();
        }
      },
    );

    test('ringing neither throws nor hangs when the connection is refused', async () => {
      prefix = 'refused';
      const bell = await bellOn(backend.url(await refusedPort()), RING_TIMEOUT_MS);
      const startedAt = performance.now();
      for (let n = 0; n < 20; n += 1) await bell.ring([{ kind: 'compose', id: randomUUID() }]);
      expect(performance.now() - startedAt).toBeLessThan(15 * RING_TIMEOUT_MS);
      expect(bell.errors.length).toBeGreaterThan(0);
      expect(bell.errors.length).toBeLessThan(8);
      expect(bell.errors.map(({ message }) => message).join()).toMatch(/ECONNREFUSED/);
    });

    test('ringing, listening and closing end in bounded time when the server never answers', async () => {
      prefix = 'mute';
      const mute = createServer((socket) => void socket.on('error', () => undefined).resume());
      mute.listen(0, '127.0.0.1');
      await once(mute, 'listening');
      closers.push(async () => {
        mute.close();
        await once(mute, 'close');
      });
      const url = backend.url((mute.address() as AddressInfo).port);
      const startedAt = performance.now();
      const bell = await bellOn(url, RING_TIMEOUT_MS);
      expect(performance.now() - startedAt).toBeLessThan(NO_HANG_MS);
      const rungAt = performance.now();
      await bell.ring([{ kind: 'compose', id: randomUUID() }]);
      expect(performance.now() - rungAt).toBeLessThan(NO_HANG_MS);
      expect(bell.errors.map(({ message }) => message).join()).toMatch(/took longer than \d+ ms/);
      const listenAt = performance.now();
      const { listener } = await listenOn(url);
      expect(performance.now() - listenAt).toBeLessThan(NO_HANG_MS);
      expect(listener.isAlive()).toBe(false);
      const closeAt = performance.now();
      await Promise.all([bell.close(), listener.close()]);
      expect(performance.now() - closeAt).toBeLessThan(NO_HANG_MS);
    });

    test('after an outage signals arrive again, with the same bell and listener', async () => {
      prefix = 'outage';
      const { gate, url } = await gated();
      const { listener, heard } = await listenOn(url, SOON_SILENT);
      const bell = await bellOn(url, RING_TIMEOUT_MS);
      await expectHeard(bell, heard);
      await gate.cut();
      await bell.ring([{ kind: 'poll', id: randomUUID() }]);
      await eventually(() => listener.isAlive(), { timeout: 10_000 }).toBe(false);
      await gate.open();
      heard.length = 0;
      await expectHeard(bell, heard, 'poll');
      await expectHeard(bell, heard, 'tools');
      await eventually(() => listener.isAlive(), { timeout: 10_000 }).toBe(true);
    });

    test('a listener and a bell opened during an outage work after it', async () => {
      prefix = 'late';
      const { gate, url } = await gated();
      await gate.cut();
      const { listener, heard, errors } = await listenOn(url);
      const bell = await bellOn(url, RING_TIMEOUT_MS);
      expect(listener.isAlive()).toBe(false);
      expect(errors.length).toBeGreaterThan(0);
      await gate.open();
      await expectHeard(bell, heard, 'poll');
      await expectHeard(bell, heard, 'ingest');
    });

    test('silently dead connections are detected and replaced', async () => {
      prefix = 'silence';
      const { gate, url } = await gated();
      const { heard, errors } = await listenOn(url, SOON_SILENT);
      const bell = await bellOn(url, RING_TIMEOUT_MS);
      await expectHeard(bell, heard);
      gate.muteExisting();
      const rungAt = performance.now();
      await bell.ring([{ kind: 'poll', id: randomUUID() }]);
      expect(performance.now() - rungAt).toBeLessThan(NO_HANG_MS);
      expect(bell.errors.at(-1)?.message).toContain(`took longer than ${RING_TIMEOUT_MS} ms`);
      heard.length = 0;
      await expectHeard(bell, heard, 'poll');
      await expectHeard(bell, heard, 'tools');
      expect(errors.map(({ message }) => message).join()).toContain('is silent');
    });

    test('closing ends in bounded time without a backend, and with a handler that hangs', async () => {
      prefix = 'closing';
      const { gate, url } = await gated();
      let busy = false;
      const { listener } = await listenOn(url, {
        closeTimeoutMs: 1_000,
        onWork: () => {
          busy = true;
          return new Promise(() => undefined);
        },
      });
      const bell = await bellOn(url, RING_TIMEOUT_MS);
      await bell.ring([{ kind: 'ingest', id: randomUUID() }]);
      await eventually(() => busy).toBe(true);
      await gate.cut();
      const startedAt = performance.now();
      await Promise.all([bell.close(), listener.close()]);
      expect(performance.now() - startedAt).toBeLessThan(NO_HANG_MS);
      expect(listener.isAlive()).toBe(false);
      await bell.ring([{ kind: 'poll', id: randomUUID() }]);
    });

    test('closing waits for a work handler and takes no new signal', async () => {
      prefix = 'drain';
      const waiting = await backend.watch(prefix);
      const done: (() => void)[] = [];
      const { listener, errors } = await listenOn(backend.url(), {
        onWork: () => new Promise<void>((resolve) => void done.push(resolve)),
      });
      const bell = await bellOn(backend.url());
      await bell.ring([
        { kind: 'ingest', id: randomUUID() },
        { kind: 'tools', id: randomUUID() },
      ]);
      await eventually(() => done.length).toBe(1);
      let closed = false;
      const closing = listener.close().then(() => (closed = true));
      await bell.ring([{ kind: 'poll', id: randomUUID() }]);
      expect(closed).toBe(false);
      done[0]?.();
      await closing;
      expect(done).toHaveLength(1);
      if (name === 'redis') expect(await waiting('work')).toHaveLength(1);
      expect(errors).toEqual([]);
    });

    test.runIf(name === 'redis')('without a listener the backlog of signals is limited', async () => {
      prefix = 'piled';
      const waiting = await backend.watch(prefix);
      const bell = await bellOn(backend.url());
      const some = () => Array.from({ length: 250 }, (): Signal => ({ kind: 'poll', id: randomUUID() }));
      // The backlog is measured once a second, so it may exceed its limit by the signals of a second.
      const until = performance.now() + 60_000;
      while (bell.errors.length === 0 && performance.now() < until) await bell.ring(some());
      expect(bell.errors.map(({ message }) => message)).toEqual([
        'queue: control holds 10000 signals or more, so new signals are dropped: is a worker running?',
      ]);
      const piled = (await waiting('control')).length;
      await bell.ring(some());
      expect((await waiting('control')).length).toBe(piled);
    });

    test.each(['after use', 'during an outage', 'between two attempts to connect'])(
      'a process that closed both ends by itself, %s',
      async (when) => {
        prefix = 'ends';
        const { gate, url } = await gated();
        const library = new URL('../src/index.ts', import.meta.url).href;
        const program = `
      import { listen, openBell } from ${JSON.stringify(library)};
      let failed; const failing = new Promise((resolve) => (failed = resolve));
      const common = { queueUrl: ${JSON.stringify(url)}, prefix: 'ends', onError: failed };
      let heard; const hearing = new Promise((resolve) => (heard = resolve));
      const listener = await listen({ ...common, onControl: heard, onWork: async () => undefined });
      const bell = await openBell({ ...common, ringTimeoutMs: 20_000 });
      await bell.ring([{ kind: 'poll', id: '*' }]);
      await hearing;
      process.stdout.write('heard');
      for await (const _ of process.stdin);
      if (${when === 'between two attempts to connect'}) await failing;
      await Promise.all([bell.close(), listener.close()]);
      process.stdout.write(' closed');`;
        const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
          stdio: ['pipe', 'pipe', 'inherit'],
        });
        closers.push(() => Promise.resolve(void child.kill('SIGKILL')));
        const exited = once(child, 'exit');
        let output = '';
        child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
        await eventually(() => output, { timeout: 60_000 }).toBe('heard');
        if (when !== 'after use') await gate.cut();
        child.stdin.end();
        const outcome = await Promise.race([exited, setTimeout(NO_HANG_MS, 'still running', { ref: false })]);
        expect(outcome).toEqual([0, null]);
        expect(output).toBe('heard closed');
      },
    );

    test(`the bell names its backend, ${name}`, async () => {
      prefix = 'named';
      expect((await bellOn(backend.url())).backend).toBe(name);
    });
  },
);

/** True for a signal for all rows of its kind. */
function isStarOf(kind: Signal['kind'], signal: Signal): boolean {
  return signal.kind === kind && signal.id === '*';
}

describe('with the queue switched off', () => {
  test('ringing does nothing, listening receives nothing, and both close', async () => {
    const onError = (error: Error) => {
      throw error;
    };
    const bell = await openBell({ queueUrl: 'none', onError });
    const listener = await listen({
      queueUrl: 'none',
      onControl: () => expect.unreachable(),
      onWork: () => expect.unreachable(),
      onError,
    });
    await bell.ring([{ kind: 'poll', id: '*' }]);
    expect(bell.backend).toBe('none');
    expect(listener.isAlive()).toBe(true);
    await bell.close();
    await listener.close();
  });
});
