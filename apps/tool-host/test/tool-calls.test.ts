import { rm, symlink, writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { startToolHost } from '../src/index.ts';
import { TOOLS_DIR, callOf, linesOf, startTestHost, testDirectory, until } from './support/tool-hosts.ts';

describe('the result of a tool', () => {
  test('a string is passed on unchanged, other values as JSON, nothing as null', async () => {
    const host = await startTestHost();
    const outcomes = await host.runCalls([
      callOf('echo', { text: 'as "it" is' }),
      callOf('echo', { list: [1, { two: null }] }),
      callOf('nothing'),
      callOf('from_default'),
    ]);
    expect(outcomes.map(({ status, result }) => [status, result])).toEqual([
      ['succeeded', 'as "it" is'],
      ['succeeded', '{"list":[1,{"two":null}]}'],
      ['succeeded', 'null'],
      ['succeeded', 'hello'],
    ]);
    expect(
      outcomes.every((outcome) => outcome.started && !outcome.truncated && outcome.error === undefined),
    ).toBe(true);
  });

  test('ill-formed text survives the round trip', async () => {
    const host = await startTestHost();
    const text = 'lone \ud800 surrogate, NUL \u0000, line \u2028 separator, 😀';
    const [outcome] = await host.runCalls([callOf('echo', { text })]);
    expect(outcome?.result).toBe(text);
  });

  test('a key named __proto__ in the arguments is an ordinary key', async () => {
    const host = await startTestHost();
    const args = JSON.parse('{"__proto__":{"admin":true},"a":1}') as Record<string, unknown>;
    const [outcome] = await host.runCalls([callOf('echo', args)]);
    expect(outcome?.result).toBe('{"__proto__":{"admin":true},"a":1}');
  });

  test('a tool receives the ids of its call', async () => {
    const host = await startTestHost();
    const call = callOf('context', {}, { agent_id: 'agent-7', run_id: 'run-8' });
    const [outcome] = await host.runCalls([call]);
    expect(JSON.parse(outcome?.result ?? '')).toEqual({
      signal: true,
      agentId: 'agent-7',
      runId: 'run-8',
      toolUseId: call.tool_use_id,
      idempotencyKey: call.idempotency_key,
    });
  });

  test('a result over the limit is cut and says so; the call may set its own limit', async () => {
    const host = await startTestHost();
    const [huge, own, smileys] = await host.runCalls([
      callOf('huge'),
      callOf('huge', {}, { result_char_limit: 3 }),
      callOf('smileys'),
    ]);
    const note = (length: number, limit: number): string =>
      `... [NOTE: function output was truncated since it exceeded the character limit (${length} > ${limit})]`;
    expect(huge).toMatchObject({ status: 'succeeded', truncated: true });
    expect(huge?.result).toBe('x'.repeat(50_000) + note(50_000_000, 50_000));
    expect(own?.result).toBe('xxx' + note(50_000_000, 3));
    expect(smileys?.result, 'no surrogate pair is cut in two').toBe('😀'.repeat(5) + note(20, 11));
  });

  test('a value that is not JSON fails with the reason', async () => {
    const host = await startTestHost();
    const outcomes = await host.runCalls([callOf('cyclic'), callOf('bigint'), callOf('deep')]);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(['failed', 'failed', 'failed']);
    expect(outcomes[0]?.error).toMatch(/cannot be written as JSON \(Converting circular structure/);
    expect(outcomes[1]?.error).toMatch(/cannot be written as JSON \(.*BigInt/);
    expect(outcomes[2]?.error).toMatch(/cannot be written as JSON \(Maximum call stack/);
  });

  test('a thrown error fails with its type and message, within a thousand characters', async () => {
    const host = await startTestHost();
    const [plain, long, hostile] = await host.runCalls([
      callOf('throws'),
      callOf('throws', { message: 'y'.repeat(1_000_000) }),
      callOf('throws_hostile'),
    ]);
    expect(plain).toMatchObject({
      status: 'failed',
      error: 'RangeError: too far',
      result: 'RangeError: too far',
    });
    expect(long?.error).toHaveLength(1_000);
    expect(hostile).toMatchObject({ status: 'failed', error: 'Error: the thrown value could not be read' });
  });
});

describe('an invalid request', () => {
  test('fails alone, with an error that names its fault', async () => {
    const host = await startTestHost();
    const cyclic: { self?: unknown } = {};
    cyclic.self = cyclic;
    const outcomes = await host.runCalls([
      callOf('no_such_tool'),
      callOf('echo', ['a', 'list']),
      callOf('echo', 'text'),
      callOf('echo', null),
      callOf('echo', { toJSON: () => 'text' }),
      callOf('echo', { toJSON: () => undefined }),
      callOf('echo', cyclic),
      callOf('echo', {}, { timeout_ms: 0 }),
      callOf('echo', {}, { timeout_ms: 600_001 }),
      callOf('echo', {}, { result_char_limit: 1.5 }),
      callOf('echo', { text: 'good' }),
    ]);
    expect(outcomes.map((outcome) => outcome.error)).toEqual([
      'Tool not found: no_such_tool. It has no module here any more; go on without it.',
      'arguments must be a JSON object',
      'arguments must be a JSON object',
      'arguments must be a JSON object',
      'arguments must be a JSON object',
      'arguments must be a JSON object',
      expect.stringMatching(/^arguments cannot be written as JSON/),
      'timeout_ms must be a whole number from 1 to 600000',
      'timeout_ms must be a whole number from 1 to 600000',
      'result_char_limit must be a whole number from 1 to 1000000',
      undefined,
    ]);
    expect(outcomes.slice(0, 10).every((outcome) => outcome.status === 'failed' && !outcome.started)).toBe(
      true,
    );
    expect(outcomes[10]?.result).toBe('good');
  });

  test('arguments that exceed a frame fail; arguments of many megabytes do not', async () => {
    const host = await startTestHost();
    const [large, tooLarge] = await host.runCalls([
      callOf('echo', { text: 'z'.repeat(20 * 1024 * 1024) }),
      callOf('echo', { text: 'z'.repeat(70 * 1024 * 1024) }),
    ]);
    expect(large).toMatchObject({ status: 'succeeded', truncated: true });
    expect(tooLarge).toMatchObject({ status: 'failed', started: false });
    expect(tooLarge?.error).toMatch(/^arguments are too large/);
  });
});

describe('many calls', () => {
  test('a thousand mixed calls are all answered, in the given order', async () => {
    const host = await startTestHost();
    const ledger = `${await testDirectory()}/ledger`;
    const kinds = [
      { tool: 'echo', status: 'succeeded' },
      { tool: 'throws', status: 'failed' },
      { tool: 'slow', args: { ms: 5 }, status: 'succeeded' },
      { tool: 'cyclic', status: 'failed' },
      { tool: 'pay_once', args: { ledger }, status: 'succeeded' },
      { tool: 'strays', status: 'succeeded' },
      { tool: 'no_such_tool', status: 'failed' },
    ];
    const calls = Array.from({ length: 1_000 }, (_, index) => {
      if (index === 500) return callOf('exits');
      if (index === 600) return callOf('spin');
      if (index === 700) return callOf('memory_bomb');
      const kind = kinds[index % kinds.length] as (typeof kinds)[number];
      return callOf(kind.tool, kind.args ?? { text: String(index) });
    });
    const expected = calls.map((call, index) => {
      const special = { 500: 'crashed', 600: 'timed_out', 700: 'crashed' }[index];
      return [call.call_id, special ?? kinds[index % kinds.length]?.status];
    });
    const outcomes = await host.runCalls(calls);
    expect(outcomes.map((outcome) => [outcome.call_id, outcome.status])).toEqual(expected);
    const payments = calls
      .filter((call) => call.tool_name === 'pay_once')
      .map((call) => call.idempotency_key);
    expect((await linesOf(ledger)).sort(), 'each payment was made exactly once').toEqual(payments.sort());
  });

  test('each call gets its own arguments, whatever characters its neighbours have', async () => {
    const host = await startTestHost();
    const texts = ['plain', 'ä', '\n', '😀', '\ud800', '\u2028', '"\\"', ''];
    const outcomes = await host.runCalls(
      texts.map((text) => callOf('echo', { text }, { agent_id: `é${text}` })),
    );
    expect(outcomes.map(({ result }) => result)).toEqual(texts);
  });

  test('no calls, no outcomes', async () => {
    const host = await startTestHost();
    expect(await host.runCalls([])).toEqual([]);
  });

  test('two concurrent dispatches keep their own outcomes, even under equal call ids', async () => {
    const host = await startTestHost();
    const run = (text: string) =>
      host.runCalls(Array.from({ length: 200 }, () => callOf('echo', { text }, { call_id: 'same' })));
    const [left, right] = await Promise.all([run('left'), run('right')]);
    expect(new Set(left.map((outcome) => outcome.result))).toEqual(new Set(['left']));
    expect(new Set(right.map((outcome) => outcome.result))).toEqual(new Set(['right']));
  });

  test('slow asynchronous calls run side by side', async () => {
    const host = await startTestHost();
    const startedMs = performance.now();
    const outcomes = await host.runCalls(Array.from({ length: 64 }, () => callOf('slow', { ms: 300 })));
    expect(outcomes.every((outcome) => outcome.status === 'succeeded')).toBe(true);
    expect(performance.now() - startedMs, 'one after the other they take 19 s').toBeLessThan(10_000);
  });

  test('fast calls do not wait for slow calls', async () => {
    const host = await startTestHost();
    await host.runCalls([callOf('echo'), callOf('slow', { ms: 20 })]);
    const patience = new AbortController();
    const slow = host.runCalls(
      Array.from({ length: 200 }, () => callOf('slow', { ms: 60_000 }, { timeout_ms: 60_000 })),
      { signal: patience.signal },
    );
    const fast = await host.runCalls(Array.from({ length: 500 }, () => callOf('echo', { text: 'quick' })));
    expect(fast.every((outcome) => outcome.status === 'succeeded')).toBe(true);
    patience.abort();
    expect(new Set((await slow).map((outcome) => outcome.status))).toEqual(new Set(['crashed']));
  });
});

describe('giving up', () => {
  test('when the caller gives up, each call still gets an outcome, and a tool that listens is told', async () => {
    const host = await startTestHost();
    const ledger = `${await testDirectory()}/ledger`;
    const patience = new AbortController();
    // So that the threads have started, and the quick call has ended when the slow calls are cancelled.
    await host.runCalls([callOf('echo')]);
    const running = host.runCalls(
      [
        callOf('echo', { text: 'done before' }),
        callOf('slow', { ms: 60_000 }, { timeout_ms: 60_000 }),
        callOf('spin', {}, { timeout_ms: 60_000 }),
        callOf('note_idempotent', { ledger, ms: 60_000 }, { timeout_ms: 60_000 }),
      ],
      { signal: patience.signal },
    );
    await until(async () => (await linesOf(ledger)).length === 1);
    patience.abort();
    const outcomes = await running;
    expect(outcomes.map((outcome) => outcome.status)).toEqual(['succeeded', 'crashed', 'crashed', 'crashed']);
    for (const outcome of outcomes.slice(1)) expect(outcome.error).toMatch(/^AbortError: the caller gave up/);
    expect((await host.runCalls([callOf('echo', { text: 'next' })]))[0]?.result).toBe('next');
  });

  test('a signal that has already fired runs nothing', async () => {
    const host = await startTestHost();
    const ledger = `${await testDirectory()}/ledger`;
    const outcomes = await host.runCalls([callOf('pay_once', { ledger })], { signal: AbortSignal.abort() });
    expect(outcomes).toMatchObject([{ status: 'crashed', started: false }]);
    await host.runCalls([callOf('echo')]);
    expect(await linesOf(ledger)).toEqual([]);
  });
});

describe('a single call', () => {
  test('resolves with its outcome, or with the reason why it has none', async () => {
    const host = await startTestHost();
    const call = callOf('echo', { text: 'one' });
    expect(await host.runCall(call)).toMatchObject({
      call_id: call.call_id,
      status: 'succeeded',
      result: 'one',
    });
    expect(await host.runCall(callOf('echo', 'text'))).toMatchObject({ status: 'failed', started: false });
    const aborted = await host.runCall(callOf('echo'), { signal: AbortSignal.abort() });
    expect(aborted).toMatchObject({ status: 'crashed', started: false });
    expect(aborted).not.toHaveProperty('unavailable');
  });

  test('never rejects: if no host can be started it is `crashed`, not started and `unavailable`', async () => {
    const nodePath = `${await testDirectory()}/node`;
    await symlink(process.execPath, nodePath);
    const host = await startTestHost({ threads: 1, nodePath });
    await rm(nodePath);
    process.kill(host.pid()!, 'SIGKILL');
    await until(() => host.pid() === undefined);
    expect(await host.runCall(callOf('echo'))).toMatchObject({
      status: 'crashed',
      started: false,
      unavailable: true,
      error: expect.stringMatching(/^the tool host does not start: /),
    });
    await symlink(process.execPath, nodePath);
    expect(await host.runCall(callOf('echo', { text: 'again' })), 'the next call tries again').toMatchObject({
      status: 'succeeded',
      result: 'again',
    });
  });

  test('of a closed host is `unavailable`; whether it has started is told', async () => {
    const host = await startTestHost();
    const ledger = `${await testDirectory()}/ledger`;
    const running = host.runCall(callOf('pay_once', { ledger, ms: 60_000 }));
    await until(async () => (await linesOf(ledger)).length === 1);
    await host.close();
    await host.close();
    expect(host.pid()).toBeUndefined();
    const error = 'the tool host is closed; start another one';
    expect(await running).toMatchObject({ status: 'crashed', started: true, unavailable: true, error });
    expect(await host.runCall(callOf('echo'))).toMatchObject({ started: false, unavailable: true, error });
  });
});

describe('starting', () => {
  test('a wrong option is refused by name', async () => {
    await expect(startToolHost({ toolsDirs: [TOOLS_DIR], threads: 0 })).rejects.toThrow(/threads/);
  });

  test('a process that cannot be started is reported with the reason and its last lines', async () => {
    await expect(startToolHost({ toolsDirs: [], nodePath: '/no/such/node' })).rejects.toThrow(/ENOENT/);
    const nodePath = `${await testDirectory()}/node`;
    await writeFile(nodePath, '#!/bin/sh\necho "no such flag" >&2; exit 9\n', { mode: 0o755 });
    await expect(startToolHost({ toolsDirs: [], nodePath })).rejects.toThrow(
      /^the tool host does not start: it exited with code 9; its last lines: no such flag$/,
    );
  });
});
