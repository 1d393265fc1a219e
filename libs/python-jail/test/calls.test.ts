import { afterAll, describe, expect, test } from 'vitest';
import { call, openJailOrSkip } from './support.ts';

const opened = await openJailOrSkip();
const jail = opened!;
afterAll(() => opened?.close());

describe.skipIf(opened === undefined)('a call', () => {
  test.each([
    ['a string as it is', 'def f(): return "ä\\n😀"', 'ä\n😀'],
    [
      'another value as JSON',
      'def f(): return {"a": [1, 2.5, None, True], "ü": "x"}',
      '{"a":[1,2.5,null,true],"ü":"x"}',
    ],
    ['None as null', 'def f(): pass', 'null'],
    ['the result of a coroutine', 'async def f(): return [1]', '[1]'],
    [
      'values of dataclasses',
      'from dataclasses import dataclass, asdict\n@dataclass\nclass P:\n  x: int = 1\ndef f(): return asdict(P())',
      '{"x":1}',
    ],
    ['nothing of the environment', 'import os\ndef f(): return dict(os.environ)', '{}'],
    ['the same hash of a text each time', 'def f(): return hash("a")', /^-?\d+$/],
  ])('returns %s', async (_, source, result) => {
    const reply = await call(jail, source);
    expect(reply).toMatchObject({
      call_id: 'call',
      status: 'succeeded',
      result: typeof result === 'string' ? result : expect.stringMatching(result),
      truncated: false,
      started: true,
    });
    expect((await call(jail, source)).result).toBe(reply.result);
  });

  test('passes arguments by name, secrets as variables, and keeps its prints', async () => {
    const source = `
import os, sys
def f(b, *, a=1, c="none"):
    print("out", a)
    print("err", file=sys.stderr)
    return [a, b, c, os.environ["KEY"]]
`;
    const reply = await call(jail, source, { arguments: { a: 5, b: ['x'] }, env: { KEY: 'secret' } });
    expect(reply).toMatchObject({ result: '[5,["x"],"none","secret"]', stdout: 'out 5\n', stderr: 'err\n' });
  });

  test('cuts its result and its prints', async () => {
    const reply = await call(jail, 'def f():\n  print("y" * 5000)\n  return "x" * 200', {
      result_char_limit: 100,
    });
    expect(reply).toMatchObject({ result: 'x'.repeat(100), truncated: true, stdout: 'y'.repeat(4_096) });
  });

  test.each([
    ['an error with its line', 'def f():\n  raise ValueError("no")', 'ValueError: no (line 2)'],
    ['wrong arguments', 'def f(a): pass', /^TypeError: .*missing 1 required/],
    [
      'a value that is not JSON',
      'def f(): return {1}',
      /^TypeError: the tool returned a value that is not JSON: .*set/,
    ],
    [
      'a missing package',
      'def f():\n  import numpy',
      "ModuleNotFoundError: No module named 'numpy' (line 2)",
    ],
    ['memory over 256 MB', 'def f(): return len(bytearray(256_000_000))', 'MemoryError (line 1)'],
    ['the end of its process', 'import os\ndef f(): os._exit(3)', /ended before it returned: exit code 3$/],
    ['a fetch without a network list', 'def f(): fetch("https://a.example/")', /^NameError/],
    [
      'a socket',
      'import socket\ndef f(): socket.create_connection(("127.0.0.1", 1))',
      /^(PermissionError|OSError|gaierror)/,
    ],
  ])('fails with %s', async (_, source, result) => {
    const reply = await call(jail, source);
    expect(reply).toMatchObject({ status: 'failed', started: true });
    expect(reply.result).toMatch(result);
  });

  test('ends at its timeout, and keeps what it printed', async () => {
    const reply = await call(jail, 'def f():\n  print("begun", flush=True)\n  while True: pass', {
      timeout_ms: 300,
    });
    expect(reply).toMatchObject({
      status: 'timed_out',
      result: 'the tool did not return within its timeout of 300 ms',
      stdout: 'begun\n',
    });
  });

  test('ends when its caller gives up', async () => {
    const stop = new AbortController();
    const reached = Promise.withResolvers<void>();
    const running = call(
      jail,
      'def f():\n  fetch("x")\n  while True: pass',
      {
        onFetch: async () => {
          reached.resolve();
          return { error: 'no' };
        },
      },
      stop.signal,
    );
    await reached.promise;
    stop.abort();
    expect(await running).toMatchObject({ status: 'crashed', result: 'the caller gave up', started: true });
    expect((await call(jail, 'def f(): pass', {}, stop.signal)).started).toBe(false);
  });

  test('fetches through its caller alone', async () => {
    const requests: string[] = [];
    const reply = await call(
      jail,
      `def f():
    answer = fetch("https://a.example/x", method="POST", headers={"k": "v"}, body="ü")
    try:
        fetch("https://b.example/")
    except ConnectionError as error:
        return [answer.status, answer.ok, answer.headers["kind"], answer.json(), str(error)]`,
      {
        onFetch: async (text) => {
          requests.push(text);
          return requests.length === 1
            ? { status: 201, headers: { kind: 'json' }, body: '{"a":1}' }
            : { error: 'refused' };
        },
      },
    );
    expect(JSON.parse(reply.result)).toEqual([201, true, 'json', { a: 1 }, 'refused']);
    expect(requests.map((text) => JSON.parse(text) as object)).toEqual([
      { url: 'https://a.example/x', method: 'POST', headers: { k: 'v' }, body: 'ü' },
      { url: 'https://b.example/', method: 'GET', headers: {} },
    ]);
  });

  test('harms no call beside it', async () => {
    const hostile = call(jail, 'import os\ndef f():\n  while True: os.write(3, b"x" * 65536)');
    const neighbours = await Promise.all(
      [1, 2, 3].map((a) => call(jail, 'def f(a): return a', { arguments: { a } })),
    );
    expect(neighbours.map(({ result }) => result)).toEqual(['1', '2', '3']);
    expect(await hostile).toMatchObject({ status: 'failed', result: /sent more than/ });
  });

  test('of more than 1 MB is refused before its process starts', async () => {
    const reply = await call(jail, 'def f(a): pass', { arguments: { a: 'x'.repeat(1_048_576) } });
    expect(reply).toMatchObject({ status: 'failed', started: false });
    expect(reply.result).toMatch(/exceed 1 MB/);
  });
});
