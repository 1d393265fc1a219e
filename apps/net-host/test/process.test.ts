import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { LOOPBACK_URLS, openHostileNet } from '../../../libs/egress/test/hostile-urls.ts';
import { startNetHost, type NetCall, type NetHost, type Reply } from '../src/index.ts';
import {
  fetchCall,
  httpCall,
  isRunning,
  mcpBase,
  moduleCall,
  serve,
  startTestHost,
  until,
} from './support/net-hosts.ts';

const CALLS = 1_000;

/** Starts a server that answers nothing before `release`. */
async function serveHeld() {
  const held: ServerResponse[] = [];
  let isReleased = false;
  const server = await serve((_, response) => {
    if (isReleased) response.end('released');
    else held.push(response);
  });
  return {
    ...server,
    held,
    release: () => {
      isReleased = true;
      for (const response of held.splice(0)) response.end('released');
    },
  };
}

describe('a thousand calls', () => {
  test.each<[string, (url: string) => NetCall]>([
    ['of an HTTP tool', (url) => httpCall({ url })],
    ['of a sandbox', (url) => fetchCall(url)],
    ['of a module', (url) => moduleCall('waits', { url })],
  ])('%s are under way at a time', async (_, callOf) => {
    const host = await startTestHost();
    const server = await serveHeld();
    const replies = Promise.all(Array.from({ length: CALLS }, () => host.runCall(callOf(server.url))));
    await until(() => server.held.length === CALLS);
    server.release();
    expect((await replies).filter(({ status }) => status === 'succeeded')).toHaveLength(CALLS);
  });

  test('beyond the limit wait for a place', async () => {
    const host = await startTestHost({ callsMax: 2 });
    const server = await serveHeld();
    const replies = [1, 2, 3].map(() => host.runCall(httpCall({ url: server.url })));
    await until(() => server.held.length === 2);
    server.held.shift()!.end('first');
    await until(() => server.seen.length === 3);
    server.release();
    expect((await Promise.all(replies)).map(({ status }) => status)).toEqual(Array(3).fill('succeeded'));
  });
});

describe('the end of the process', () => {
  test('in the middle of 200 calls leaves none without an honest reply', async () => {
    const host = await startTestHost();
    const server = await serveHeld();
    const effects = ['none', 'idempotent', 'once'] as const;
    const calls = Array.from({ length: 200 }, (_, i) =>
      httpCall({ url: server.url, method: 'POST' }, { side_effects: effects[i % 3]! }),
    );
    const replies = calls.map((call) => host.runCall(call));
    await until(() => server.held.length === 200);
    process.kill(host.pid()!, 'SIGKILL');
    const once = calls.filter(({ side_effects }) => side_effects === 'once');
    await until(() => server.seen.length === 400 - once.length);
    server.release();

    const ended = await Promise.all(replies);
    const asked = server.seen.map(({ headers }) => headers['idempotency-key']);
    for (const [i, { call_id, idempotency_key, side_effects }] of calls.entries()) {
      const expected: Partial<Reply> =
        side_effects === 'once' ? { status: 'crashed' } : { status: 'succeeded', result: 'released' };
      expect(ended[i]).toMatchObject({ call_id, started: true, ...expected });
      expect(asked.filter((key) => key === idempotency_key)).toHaveLength(side_effects === 'once' ? 1 : 2);
    }
  });

  test('twice ends a call as crashed', async () => {
    const host = await startTestHost();
    const server = await serveHeld();
    const reply = host.runCall(httpCall({ url: server.url }));
    for (const times of [1, 2]) {
      await until(() => server.seen.length === times);
      process.kill(host.pid()!, 'SIGKILL');
    }
    expect(await reply).toMatchObject({ status: 'crashed', started: true });
    expect((await host.runCall(moduleCall('does', { act: 'well' }))).result).toBe('well');
  });

  test('leaves a call that had not started to the next one', async () => {
    const host = await startTestHost();
    process.kill(host.pid()!, 'SIGKILL');
    const call = moduleCall('does', { act: 'well' }, { side_effects: 'once' });
    expect(await host.runCall(call)).toMatchObject({ status: 'succeeded', result: 'well' });
  });

  test('by a module ends its calls, and no other for good', async () => {
    const host = await startTestHost();
    const server = await serveHeld();
    const neighbour = host.runCall(httpCall({ url: server.url }));
    await until(() => server.held.length === 1);
    const reply = await host.runCall(moduleCall('does', { act: 'exit' }, { side_effects: 'once' }));
    expect(reply).toMatchObject({ status: 'crashed', started: true });
    expect(host.log.join('\n')).toContain('exits with code 3');
    await until(() => server.seen.length === 2);
    server.release();
    expect(await neighbour).toMatchObject({ status: 'succeeded' });
  });

  test('is brought about when it gives no sign of life', async () => {
    const host = await startTestHost({ pingEveryMs: 3_000 });
    const reply = await host.runCall(moduleCall('does', { act: 'loop' }, { side_effects: 'once' }));
    expect(reply).toMatchObject({ status: 'crashed', started: true });
    expect(host.log.join('\n')).toContain('no sign of life');
    expect((await host.runCall(moduleCall('does', { act: 'well' }))).result).toBe('well');
  });

  test.each(['pid', 'in a loop'])('comes with the end of its owner: %s', async (state) => {
    const owner = spawn(
      process.execPath,
      [fileURLToPath(new URL('fixtures/owner.ts', import.meta.url)), state],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    onTestFinished(() => void owner.kill('SIGKILL'));
    let said = '';
    owner.stdout.on('data', (piece: Buffer) => (said += piece.toString()));
    await until(() => said.includes(state) && said.endsWith('\n'));
    const pid = Number(/pid (\d+)/.exec(said)![1]);
    onTestFinished(() => {
      if (isRunning(pid)) process.kill(pid, 'SIGKILL');
    });
    expect(isRunning(pid)).toBe(true);
    owner.kill('SIGKILL');
    await until(() => !isRunning(pid));
  });
});

describe('the caller', () => {
  test('gives up a call, waiting or under way', async () => {
    const host = await startTestHost({ callsMax: 1 });
    const server = await serveHeld();
    const aborter = new AbortController();
    const { signal } = aborter;
    const underWay = host.runCall(httpCall({ url: server.url }), { signal });
    const waiting = host.runCall(httpCall({ url: server.url }), { signal });
    await until(() => server.held.length === 1);
    const closed = once(server.held[0]!, 'close');
    aborter.abort();
    expect(await underWay).toMatchObject({ status: 'crashed', started: true });
    expect(await waiting).toMatchObject({ status: 'crashed', started: false });
    await closed;
    const late = await host.runCall(httpCall({ url: server.url }), { signal });
    expect(late).toMatchObject({ status: 'crashed', started: false });
    expect(server.seen).toHaveLength(1);
  });

  test('is told that a closed host runs nothing', async () => {
    const host = await startTestHost();
    const server = await serveHeld();
    const call = httpCall({ url: server.url });
    const underWay = host.runCall(call);
    await until(() => server.held.length === 1);
    const pid = host.pid()!;
    await host.close();
    await host.close();
    expect(await underWay).toMatchObject({ status: 'crashed', started: true, unavailable: true });
    expect(await host.runCall(call)).toMatchObject({ status: 'crashed', started: false, unavailable: true });
    expect(isRunning(pid)).toBe(false);
  });

  test('is told that the host does not start', async () => {
    await expect(startNetHost({ nodePath: '/nowhere/node' })).rejects.toThrow('does not start');
  });

  test('is told when the host starts no more, until it does', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'nightshift-net-host-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const nodePath = join(directory, 'node');
    await writeFile(nodePath, `#!/bin/sh\nexec '${process.execPath}' "$@"\n`, { mode: 0o755 });
    const host = await startTestHost({ nodePath });
    await rename(nodePath, `${nodePath}-away`);
    process.kill(host.pid()!, 'SIGKILL');
    const call = moduleCall('does', { act: 'well' }, { side_effects: 'once' });
    expect(await host.runCall(call)).toMatchObject({ status: 'crashed', started: false, unavailable: true });
    await rename(`${nodePath}-away`, nodePath);
    expect(await host.runCall(call)).toMatchObject({ status: 'succeeded', result: 'well' });
  });

  test('gets a reply to a call that is too large', async () => {
    const host = await startTestHost();
    const call = moduleCall('does', { act: 'x'.repeat(65 * 1024 * 1024) });
    expect(await host.runCall(call)).toMatchObject({ status: 'failed', started: false });
  });
});

describe('a module', () => {
  let host: NetHost;
  const log: string[] = [];
  beforeAll(async () => {
    host = await startNetHost({ onLog: (line) => log.push(line) });
  });
  afterAll(() => host.close());

  test('gets its arguments and context, and no environment', async () => {
    const call = moduleCall('does', { act: 'context' });
    expect(JSON.parse((await host.runCall(call)).result)).toEqual({
      signal: '[object AbortSignal]',
      agentId: 'agent-1',
      runId: 'run-1',
      toolUseId: 'toolu_1',
      idempotencyKey: call.idempotency_key,
    });
    const { result } = await host.runCall(moduleCall('does', { act: 'environment' }));
    const allowed = new Set(['PATH', 'TZ', 'LANG']);
    expect((JSON.parse(result) as string[]).filter((name) => !allowed.has(name))).toEqual([]);
  });

  test.each([
    ['does', 'well', { status: 'succeeded', result: 'well', started: true, attempts: 1 }],
    ['does', 'undefined', { status: 'succeeded', result: 'null' }],
    ['does', 'long', { status: 'succeeded', truncated: true }],
    ['does', 'throw', { status: 'failed', result: 'RangeError: no such row', started: true }],
    ['does', 'cycle', { status: 'failed', started: true }],
    ['object', '', { status: 'succeeded', result: 'own word' }],
    ['threaded', '', { status: 'failed', started: false }],
    ['broken', '', { status: 'failed', result: 'Error: cannot be loaded', started: false }],
    ['missing', '', { status: 'failed', started: false }],
  ])('%s %s', async (name, act, expected) => {
    expect(await host.runCall(moduleCall(name, { act }, { result_char_limit: 50 }))).toMatchObject(expected);
  });

  test('that ignores its signal ends at its timeout', async () => {
    const call = moduleCall('does', { act: 'never' }, { timeout_ms: 3_000 });
    expect(await host.runCall(call)).toMatchObject({ status: 'timed_out', started: true });
  });

  test('that leaves errors behind harms no neighbour', async () => {
    const pid = host.pid();
    expect(await host.runCall(moduleCall('does', { act: 'stray' }))).toMatchObject({ result: 'done' });
    await until(() => log.some((line) => line.includes('left behind, too')));
    expect(log.join('\n')).toMatch(/said by the module/);
    expect((await host.runCall(moduleCall('does', { act: 'well' }))).result).toBe('well');
    expect(host.pid()).toBe(pid);
  });
});

test('no spelling of loopback reaches a server', async () => {
  const host = await startTestHost();
  const net = await openHostileNet();
  onTestFinished(() => net.close());
  const closed = { allow_private: false };
  for (const hostile of LOOPBACK_URLS) {
    const url = net.urlOf(hostile);
    const own = URL.parse(url)?.host ?? '';
    const replies = [
      await host.runCall(fetchCall(url, { ...closed, allowed_hosts: [own] })),
      await host.runCall(httpCall({ url }, closed)),
      await host.runCall({ kind: 'mcp_list', ...mcpBase({ url, headers: {} }), ...closed }),
    ];
    expect(replies.map(({ status, started }) => [hostile.name, status, started])).toEqual(
      Array(3).fill([hostile.name, 'failed', false]),
    );
  }
  expect(net.breaches()).toEqual([]);
});
