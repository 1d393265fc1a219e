import { expect, test } from 'vitest';
import type { SandboxHost, SideEffects } from '../src/index.ts';
import { request, run, startHost } from './support.ts';

const EFFECTS: readonly SideEffects[] = ['none', 'idempotent', 'once'];

/** A call that has one effect outside, and works for a while before and after it. */
const CODE = `export async function f(name) {
  const work = () => { let x = 0; for (let i = 0; i < 20000; i++) x += i; };
  work();
  await fetch('https://a.example/' + name);
  work();
  return 'done';
}`;

/** Kills the process of a host and never answers. */
function killUnanswered(host: SandboxHost): Promise<never> {
  process.kill(host.pid()!, 'SIGKILL');
  return new Promise(() => {});
}

test('the host is killed in the middle of 200 calls: no call hangs, none with one effect runs twice', async () => {
  const effects = new Map<string, number>();
  const host = await startHost({
    fetch: async (_, { call_id }) => {
      effects.set(call_id, (effects.get(call_id) ?? 0) + 1);
      // A call with one effect is under way. Without an answer it cannot end before its process.
      if (call_id === 'once-80') return killUnanswered(host);
      return { status: 200, headers: {}, body: '' };
    },
  });
  const calls = Array.from({ length: 200 }, (_, at) => {
    const side_effects = EFFECTS[at % 3]!;
    const more = { call_id: `${side_effects}-${at}`, side_effects, network: ['a.example'] };
    return { side_effects, reply: host.runCall(request(CODE, { ...more, arguments: { name: `${at}` } })) };
  });
  const replies = await Promise.all(
    calls.map(async ({ side_effects, reply }) => ({ side_effects, ...(await reply) })),
  );
  await host.close();

  const lost = replies.filter(({ status }) => status !== 'succeeded');
  expect(lost.map(({ call_id }) => call_id)).toContain('once-80');
  // At most one for each thread.
  expect(lost.length).toBeLessThanOrEqual(2);
  for (const { side_effects, status, started, result } of lost) {
    expect([side_effects, status, started]).toEqual(['once', 'crashed', true]);
    expect(result).toContain('the sandbox host ended while the call was under way');
  }
  for (const { call_id, side_effects } of replies)
    expect(effects.get(call_id)).toBeLessThanOrEqual(side_effects === 'once' ? 1 : 2);
});

test('a call that may be repeated and ends the host each time is repeated once', async () => {
  let starts = 0;
  const host = await startHost({
    fetch: async () => {
      starts += 1;
      return killUnanswered(host);
    },
  });
  const reply = await run(host, CODE, { side_effects: 'idempotent', network: ['a.example'] });
  expect(reply).toMatchObject({ status: 'crashed', started: true });
  expect(starts).toBe(2);
  expect(await run(host, 'export const f = () => "next"')).toMatchObject({ result: 'next' });
  await host.close();
});

test('the process is replaced after 1,000 calls, and no call notices', async () => {
  const host = await startHost();
  const first = host.pid();
  const replies = await Promise.all(
    Array.from({ length: 1_100 }, () => run(host, 'export const f = () => "done"')),
  );
  expect(replies.filter(({ result }) => result !== 'done')).toEqual([]);
  await expect.poll(() => host.pid(), { timeout: 60_000 }).not.toBe(first);
  await host.close();
});

test('a failure of the engine ends its call and thread; other calls go on, and the process is replaced', async () => {
  const host = await startHost();
  const first = host.pid();
  const work =
    'export function f() { const end = Date.now() + 500; while (Date.now() < end); return "done" }';
  const neighbours = [run(host, work)];
  // Without its key the thread cannot set the call up.
  const broken = await run(host, 'export function f() {}', {
    idempotency_key: undefined as unknown as string,
  });
  expect(broken).toMatchObject({ status: 'crashed', started: true });
  expect(broken.result).toContain('the sandbox of the call ended');
  neighbours.push(run(host, work), run(host, work));
  for (const reply of await Promise.all(neighbours)) expect(reply.result).toBe('done');
  await expect.poll(() => host.pid(), { timeout: 60_000 }).not.toBe(first);
  await host.close();
});

test('while no process starts, calls end as unavailable; the next call tries again', async () => {
  const host = await startHost({ bubblewrap: 'off' });
  const { execPath } = process;
  process.execPath = '/absent/node';
  try {
    process.kill(host.pid()!, 'SIGKILL');
    await expect.poll(() => host.pid()).toBeUndefined();
    expect(await run(host, 'export function f() {}')).toMatchObject({
      status: 'crashed',
      started: false,
      unavailable: true,
      result: expect.stringContaining('the sandbox host does not start'),
    });
  } finally {
    process.execPath = execPath;
  }
  const next = await run(host, 'export const f = () => "next"');
  expect(next).toMatchObject({ status: 'succeeded', result: 'next' });
  expect(next).not.toHaveProperty('unavailable');
  await host.close();
});

test('a host that does not start is an error with its reason', async () => {
  await expect(startHost({ threads: -1, bubblewrap: 'off' })).rejects.toThrow(
    /^the sandbox host does not start: it exited/,
  );
});
