import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SandboxHost } from '../src/index.ts';
import { request, run, startHost } from './support.ts';

let host: SandboxHost;

beforeAll(async () => {
  host = await startHost();
});

afterAll(() => host.close());

describe('a call returns', () => {
  test.each([
    ['a string unchanged', 'export function f() { return "a \\0 \u{1F600}" }', 'a \0 \u{1F600}'],
    ['another value as JSON', 'export function f() { return { a: [1, null] } }', '{"a":[1,null]}'],
    ['nothing as null', 'export function f() {}', 'null'],
    ['the value of a promise', 'export async function f() { await null; return 1 }', '1'],
    ['the answer of a default export', 'export default () => 2', '2'],
    ['after an await at top level', 'const x = await Promise.resolve(3); export const f = () => x', '3'],
  ])('%s', async (_, code, result) => {
    const reply = await run(host, code);
    expect(reply).toMatchObject({ status: 'succeeded', result, truncated: false, started: true });
    expect(reply.duration_ms).toBeGreaterThan(0);
  });

  test('with arguments by position, in the order of the parameters', async () => {
    const reply = await run(host, 'export function f(...given) { return given }', {
      parameters: ['b', 'absent', 'a', 'toString'],
      arguments: { a: 'x\0\ud800', b: { c: 1 }, unnamed: 2 },
    });
    expect(reply.result).toBe('[{"c":1},null,"x\\u0000\\ud800",null]');
  });

  test('with its output, each stream cut', async () => {
    const code = `export function f() {
      console.log('out', { a: 1 }, new TypeError('no'));
      console.error('e'.repeat(5000)); console.warn('cut');
    }`;
    const { stdout, stderr } = await run(host, code);
    expect(stdout).toBe('out {"a":1} TypeError: no (line 2)\n');
    expect(stderr).toBe('e'.repeat(4096));
  });

  test('a result cut to its limit, never within a character', async () => {
    const code = 'export function f() { return "\u{1F600}".repeat(10) }';
    expect(await run(host, code, { result_char_limit: 5 })).toMatchObject({
      result: '\u{1F600}\u{1F600}',
      truncated: true,
    });
    expect(await run(host, code, { result_char_limit: 20 })).toMatchObject({ truncated: false });
  });

  test('a result cut to the size of a frame', async () => {
    const code = 'export function f() { return "\\0".repeat(1e6) }';
    const { status, result, truncated } = await run(host, code, { result_char_limit: 1_000_000 });
    expect([status, truncated]).toEqual(['succeeded', true]);
    expect(result.length).toBeGreaterThan(100_000);
  });
});

describe('a call fails', () => {
  test.each([
    [
      'with the error and its line',
      '\nexport function f() {\n  throw new RangeError("no") }',
      'RangeError: no (line 3)',
    ],
    ['with a thrown text', 'export function f() { throw "no" }', 'no'],
    ['with a rejection', 'export async function f() { await null; null.x }', /^TypeError: .+ \(line 1\)$/],
    ['with a syntax error', 'export function f() {\n  let = }', /^SyntaxError: .+ \(line 2\)$/],
    ['without the function', 'export const g = 1', 'TypeError: the code exports no function f'],
    ['if its promise never settles', 'export const f = () => new Promise(() => {})', /never settles/],
    ['if its value is not JSON', 'export const f = () => 1n', /BigInt/],
    [
      'without memory',
      'export const f = () => { const x = []; for (;;) x.push("x".repeat(1e6) + x.length) }',
      /out of memory/,
    ],
  ])('%s', async (_, code, result) => {
    const reply = await run(host, code);
    expect(reply).toMatchObject({ status: 'failed', started: true, truncated: false });
    expect(reply.result).toMatch(result);
  });

  test.each([
    [
      'more than a frame holds',
      { arguments: { a: 'x'.repeat(4_300_000) } },
      /^arguments are too large: the call takes/,
    ],
    ['a value that is not JSON', { arguments: { a: 1n } }, /not JSON/],
    ['no timeout', { timeout_ms: 0 }, /timeout_ms/],
    ['an immense limit', { result_char_limit: 2_000_000 }, /result_char_limit/],
  ])('before it starts with %s', async (_, more, result) => {
    const reply = await run(host, 'export function f() {}', more);
    expect(reply).toMatchObject({ status: 'failed', started: false });
    expect(reply.result).toMatch(result);
  });
});

describe('a call is ended at its timeout', () => {
  test.each([
    ['in a loop', 'export function f() { console.log("before"); for (;;); }', 'before\n'],
    ['at top level', 'for (;;);', ''],
    ['in a native function', 'export function f() { return new Array(1e9).join("x") }', ''],
    [
      'while it waits',
      'export function f() { console.log("before"); return fetch("https://a.example/slow") }',
      'before\n',
    ],
    // On a busy machine a thread may be ended before it hands over what it printed.
  ])('%s', { retry: 2 }, async (_, code, stdout) => {
    const slow = await startHost({ threads: 1, fetch: () => new Promise(() => {}) });
    const reply = await run(slow, code, { timeout_ms: 200, network: ['a.example'] });
    expect(reply).toMatchObject({ status: 'timed_out', started: true, stdout });
    expect(reply.result).toContain('its timeout of 200 ms');
    expect(await run(slow, 'export const f = () => "next"')).toMatchObject({ result: 'next' });
    await slow.close();
  });
});

describe('a call is repeatable', () => {
  const code = 'export function f() { return [Math.random(), Math.random()] }';

  test('random numbers follow from the idempotency key', async () => {
    const [first, again, other] = await Promise.all([
      run(host, code, { idempotency_key: 'a' }),
      run(host, code, { idempotency_key: 'a' }),
      run(host, code, { idempotency_key: 'b' }),
    ]);
    expect(first.result).toBe(again.result);
    expect(first.result).not.toBe(other.result);
  });

  test('the clock starts at the given time and goes on, in UTC', async () => {
    const now =
      'export function f() { const a = Date.now(); while (Date.now() === a); return [a, new Date().getTimezoneOffset()] }';
    const { result } = await run(host, now, { now_ms: 1_000_000 });
    const [start, offset] = JSON.parse(result) as [number, number];
    expect(start).toBeGreaterThanOrEqual(1_000_000);
    expect(start).toBeLessThan(1_060_000);
    expect(offset).toBe(0);
  });

  test('nothing of one call is left for the next', async () => {
    await run(host, 'export function f() { globalThis.x = Array.prototype.y = 1 }');
    await run(host, 'export function f() { globalThis.x = Array.prototype.y = 1 }');
    const { result } = await run(host, 'export function f() { return [typeof x, typeof [].y] }');
    expect(result).toBe('["undefined","undefined"]');
  });
});

describe('fetch', () => {
  test('is absent without a host', async () => {
    expect(await run(host, 'export const f = () => typeof fetch')).toMatchObject({ result: 'undefined' });
  });

  test('is carried out by the given function', async () => {
    const code = `export async function f() {
      const answer = await fetch('https://a.example/x', { method: 'post', headers: { B: 'c' }, body: 'd' });
      return [answer.status, answer.ok, answer.headers.get('x-kind'), await answer.json()];
    }`;
    const { result } = await run(host, code, { network: ['a.example'] });
    const sent = { url: 'https://a.example/x', method: 'POST', headers: { B: 'c' }, body: 'd' };
    expect(JSON.parse(result)).toEqual([200, true, 'echo', sent]);
  });

  test.each([
    ['more than a frame holds', '"\u4e00".repeat(1_500_000)', 'the request is too large'],
    ['more than a call may send', '"x".repeat(5_000_000)', 'the requests of the call are too large'],
  ])('throws for a body of %s', async (_, body, message) => {
    const code = `export const f = () => fetch('https://a.example/', { method: 'POST', body: ${body} })`;
    const reply = await run(host, code, { network: ['a.example'] });
    expect(reply).toMatchObject({ status: 'failed', result: expect.stringContaining(message) });
  });

  test('brings a megabyte of JSON', async () => {
    const body = JSON.stringify(Array.from({ length: 100_000 }, () => '"\n'));
    const large = await startHost({ fetch: async () => ({ status: 200, headers: {}, body }) });
    const code = `export const f = async () => (await (await fetch('https://a.example/')).json()).length`;
    const reply = await run(large, code, { network: ['a.example'] });
    await large.close();
    expect(body.length).toBeGreaterThan(700_000);
    expect(reply).toMatchObject({ status: 'succeeded', result: '100000' });
  });

  test('throws what the function throws, and what does not fit a frame', async () => {
    const failing = await startHost({
      fetch: async ({ url }) => {
        if (url.endsWith('/large')) return { status: 200, headers: {}, body: 'x'.repeat(5_000_000) };
        throw new Error('connection refused');
      },
    });
    const code = (path: string): string => `export const f = () => fetch('https://a.example/${path}')`;
    const replies = [
      await run(failing, code('x'), { network: ['a.example'] }),
      await run(failing, code('large'), { network: ['a.example'] }),
    ];
    await failing.close();
    expect(replies.map(({ result }) => result)).toEqual([
      expect.stringContaining('fetch: connection refused'),
      expect.stringContaining('fetch: the response is too large'),
    ]);
  });
});

describe('a caller gives up', () => {
  test('a running call ends at once, and its thread is free again', async () => {
    const busy = await startHost({ threads: 1 });
    const stop = new AbortController();
    const running = busy.runCall(request('export function f() { for (;;); }'), { signal: stop.signal });
    const waiting = busy.runCall(request('export function f() {}'), { signal: stop.signal });
    const next = run(busy, 'export const f = () => "next"');
    stop.abort();
    expect(await running).toMatchObject({ status: 'crashed', started: true, result: 'the caller gave up' });
    expect(await waiting).toMatchObject({ status: 'crashed', started: false });
    expect(await next).toMatchObject({ result: 'next' });
    const given = await busy.runCall(request('export function f() {}'), { signal: stop.signal });
    expect(given).toMatchObject({ status: 'crashed', started: false });
    await busy.close();
  });

  test('a closed host ends its calls and takes no others', async () => {
    const closing = await startHost({ threads: 1 });
    const calls = [run(closing, 'for (;;);'), run(closing, 'for (;;);')];
    await closing.close();
    calls.push(run(closing, ''));
    const replies = await Promise.all(calls);
    expect(replies.map(({ status, started }) => [status, started])).toEqual([
      ['crashed', true],
      ['crashed', false],
      ['crashed', false],
    ]);
  });
});

test('the code reads the values that it was given as process.env, and nothing else of the process', async () => {
  const code =
    'export function f() { return [process.env.TOKEN, Object.keys(process.env), Object.keys(process)]; }';
  const { result } = await run(host, code, { env: { TOKEN: 'geheim' } });
  expect(JSON.parse(result)).toEqual(['geheim', ['TOKEN'], ['env']]);
  expect((await run(host, 'export function f() { return typeof process; }')).result).toBe('undefined');
});
