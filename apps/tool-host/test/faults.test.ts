import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { rm, symlink, writeFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { ToolCallOutcome, ToolCallRequest } from '../src/index.ts';
import {
  callOf,
  isAlive,
  linesOf,
  startTestHost,
  testDirectory,
  TOOLS_DIR,
  until,
  type TestToolHost,
} from './support/tool-hosts.ts';

const statuses = (outcomes: readonly ToolCallOutcome[]): string[] =>
  outcomes.map((outcome) => outcome.status);

describe('a call that hangs', () => {
  test('times out if it never yields, and its neighbours keep or get their results', async () => {
    const host = await startTestHost();
    const ledger = `${await testDirectory()}/ledger`;
    // All modules are imported first, so that calls share a thread with the hanging call of their tool.
    await host.runCalls([callOf('echo'), callOf('burns'), callOf('burns', { ms: 0 })]);
    const startedMs = performance.now();
    const calls = [
      ...Array.from({ length: 20 }, () => callOf('burns', { ms: 0 })),
      callOf('burns', { ms: 60_000 }, { timeout_ms: 300 }),
      ...Array.from({ length: 20 }, () => callOf('burns', { ms: 0 })),
      callOf('pay_once', { ledger }),
    ];
    const outcomes = await host.runCalls(calls);
    expect(statuses(outcomes.filter((_, index) => index !== 20))).toEqual(
      Array.from({ length: 41 }, () => 'succeeded'),
    );
    expect(outcomes[20]).toMatchObject({ status: 'timed_out', started: true });
    expect(outcomes[20]?.error).toBe(
      'TimeoutError: burns ran longer than 300 ms and was stopped with its thread',
    );
    expect(performance.now() - startedMs, 'not for the minute that it would burn').toBeLessThan(30_000);
    expect(await linesOf(ledger)).toHaveLength(1);
  });

  test('times out if it hangs after it has yielded', async () => {
    const host = await startTestHost();
    const outcomes = await host.runCalls([callOf('spin_later'), callOf('echo', { text: 'unharmed' })]);
    expect(statuses(outcomes)).toEqual(['timed_out', 'succeeded']);
  });

  test('is distinguished from a call that waited for its neighbours to release their thread', async () => {
    const host = await startTestHost();
    const calls = Array.from({ length: 24 }, () => callOf('burns_later', { ms: 150 }, { timeout_ms: 1_500 }));
    expect(statuses(await host.runCalls(calls))).toEqual(calls.map(() => 'succeeded'));
  });

  test('is distinguished from calls that compute in turns until all are late', async () => {
    const host = await startTestHost();
    // Together they exceed their timeout, alone each takes a tenth of it.
    const args = { rounds: 8, ms: 20 };
    const calls = Array.from({ length: 16 }, () => callOf('computes', args, { timeout_ms: 2_000 }));
    expect(statuses(await host.runCalls(calls))).toEqual(calls.map(() => 'succeeded'));
  });

  test('times out at its deadline if it handles its signal', async () => {
    const host = await startTestHost();
    const [outcome] = await host.runCalls([callOf('slow', { ms: 60_000 }, { timeout_ms: 100 })]);
    expect(outcome).toMatchObject({
      status: 'timed_out',
      error: 'TimeoutError: slow ran longer than 100 ms',
    });
    expect(outcome?.duration_ms, 'not the minute that it would wait').toBeLessThan(30_000);
  });

  test('is stopped with its thread if it ignores its signal', async () => {
    const host = await startTestHost();
    const file = `${await testDirectory()}/lines`;
    const [outcome] = await host.runCalls([callOf('deaf', { file })]);
    expect(outcome?.status).toBe('timed_out');
    await until(async () => {
      const before = (await linesOf(file)).length;
      await wait(200);
      return (await linesOf(file)).length === before;
    });
    expect((await linesOf(file)).length).toBeGreaterThan(0);
  });

  test('times out even in native code, where its thread cannot be stopped yet', async () => {
    const host = await startTestHost();
    // Removed only with its directory: the thread waits for it for ever.
    const file = `${await testDirectory()}/blocks`;
    await writeFile(file, '');
    const outcomes = await host.runCalls([
      callOf('blocks_in_child', { file }),
      callOf('echo', { text: 'unharmed' }),
    ]);
    expect(statuses(outcomes)).toEqual(['timed_out', 'succeeded']);
  });

  test('its waiting neighbours run again once, except `once` calls', async () => {
    const host = await startTestHost();
    const ledger = `${await testDirectory()}/ledger`;
    // Calls of a tool share a thread, in order.
    const harmless = callOf('note_idempotent', { ledger, ms: 1_000 });
    const harmful = callOf('pay_once', { ledger, ms: 1_000 });
    const outcomes = await host.runCalls([
      harmless,
      callOf('note_idempotent', { ledger, spin: true }, { timeout_ms: 200 }),
      harmful,
      callOf('pay_once', { ledger, spin: true }, { timeout_ms: 200 }),
    ]);
    expect(statuses(outcomes)).toEqual(['succeeded', 'timed_out', 'crashed', 'timed_out']);
    expect(outcomes[2]).toMatchObject({
      started: true,
      error: 'pay_once was interrupted because its thread ended (another call ran over its deadline)',
    });
    const keys = await linesOf(ledger);
    expect(keys.filter((key) => key === harmless.idempotency_key)).toHaveLength(2);
    expect(keys.filter((key) => key === harmful.idempotency_key)).toHaveLength(1);
    expect(keys, 'what hung without yielding is not tried again').toHaveLength(5);
  });
});

describe('a call that ends its thread', () => {
  test.for([
    ['exits', 'exits ended its thread: process.exit(7)'],
    ['exits_later', 'exits_later ended its thread: process.exit(8)'],
    ['throws_outside', 'throws_outside ended its thread: uncaught Error: from a timer'],
    ['throws_null', 'throws_null ended its thread: uncaught Error: null'],
    ['memory_bomb', 'memory_bomb ended its thread: out of memory (a thread has 64 MB)'],
    ['buffer_bomb', 'buffer_bomb ended its thread: out of memory (a thread has 64 MB)'],
  ] as const)('%s is the only call that crashes', async ([tool, error]) => {
    const host = await startTestHost({ threadMemoryMb: 64 });
    const ledger = `${await testDirectory()}/ledger`;
    const outcomes = await host.runCalls([
      ...Array.from({ length: 40 }, (_, index) => callOf('echo', { text: String(index) })),
      callOf(tool),
      ...Array.from({ length: 40 }, () => callOf('slow', { ms: 40 })),
      ...Array.from({ length: 10 }, () => callOf('pay_once', { ledger, ms: 5 })),
    ]);
    expect(outcomes.filter((outcome) => outcome.status !== 'succeeded')).toEqual([
      {
        call_id: outcomes[40]?.call_id,
        status: 'crashed',
        result: error,
        truncated: false,
        duration_ms: expect.any(Number),
        started: true,
        error,
      },
    ]);
    expect(new Set(await linesOf(ledger)).size).toBe(10);
    expect(await linesOf(ledger)).toHaveLength(10);
  });

  test('fails the `once` calls of its tool beside it, and none after that', async () => {
    const host = await startTestHost();
    const ledger = `${await testDirectory()}/ledger`;
    const payments = (): ToolCallRequest[] => [
      ...Array.from({ length: 3 }, () => callOf('pay_once', { ledger, ms: 100 })),
      callOf('pay_once', { ledger, exit: true }),
    ];
    expect(statuses(await host.runCalls(payments()))).toEqual(Array<string>(4).fill('crashed'));
    expect(statuses(await host.runCalls(payments()))).toEqual([
      ...Array<string>(3).fill('succeeded'),
      'crashed',
    ]);
  });

  test('several calls that end their thread in parallel are each identified', async () => {
    const host = await startTestHost();
    const outcomes = await host.runCalls(
      Array.from({ length: 12 }, (_, index) => callOf(index % 3 === 0 ? 'exits_later' : 'slow', { ms: 60 })),
    );
    expect(statuses(outcomes)).toEqual(
      Array.from({ length: 12 }, (_, index) => (index % 3 === 0 ? 'crashed' : 'succeeded')),
    );
  });

  test('a fault of code left by an ended call is not blamed on a later call alone on the thread', async () => {
    const host = await startTestHost({ threads: 1 });
    const alone = async (): Promise<ToolCallOutcome[]> => {
      await host.runCalls([callOf('leaves_timer', { ms: 300 })]);
      return host.runCalls([callOf('slow', { ms: 600 })]);
    };
    for (let round = 0; round < 2; round += 1) expect(statuses(await alone())).toEqual(['succeeded']);
  });

  test('the error of a call is shown to no other', async () => {
    const host = await startTestHost({ threads: 1 });
    const [culprit, ...neighbours] = await host.runCalls([
      callOf('pay_and_throw', { card: '4111' }),
      callOf('pay_and_throw'),
      callOf('pay_and_throw'),
    ]);
    expect(culprit?.error).toBe('pay_and_throw ended its thread: uncaught Error: declined: card 4111');
    const error = 'pay_and_throw was interrupted because its thread ended (uncaught error)';
    const crashed = { status: 'crashed', result: error, error };
    expect(neighbours).toMatchObject([crashed, crashed]);
  });

  test('an error thrown outside calls is shown to none, even if only one call was running', async () => {
    const host = await startTestHost({ threads: 1 });
    await host.runCalls([callOf('sends_together', { text: 'secret of A' })]);
    const error = 'sends_together ended its thread: uncaught error';
    expect(await host.runCalls([callOf('sends_together')])).toMatchObject([{ result: error, error }]);
  });

  test('the log names the tool that ended a thread, without its error message', async () => {
    const host = await startTestHost();
    await host.runCalls([callOf('throws_outside')]);
    await until(() => host.ownLog.length > 0);
    expect(host.ownLog).toEqual(['[tool-host] a thread ended: uncaught error (throws_outside)']);
  });

  test('the log does not repeat error messages of code left by an ended call in an idle thread', async () => {
    const host = await startTestHost();
    await host.runCalls([callOf('leaves_timer')]);
    await until(() => host.ownLog.length > 0);
    expect(host.ownLog).toEqual(['[tool-host] a thread failed outside of any task: uncaught error']);
  });

  test('a forgotten rejected promise ends nothing and is logged', async () => {
    const host = await startTestHost();
    const [outcome] = await host.runCalls([callOf('strays')]);
    expect(outcome?.status).toBe('succeeded');
    await until(() =>
      host.log.some((line) => line.includes('unhandled promise rejection: Error: forgotten')),
    );
    expect(host.ownLog, 'it may be data of the tool').toEqual([]);
  });
});

describe('a module that a thread cannot import', () => {
  /** Starts a tool that notes each import of its module, which fails while the file `broken` exists. */
  async function startWithFragile(): Promise<{
    readonly host: TestToolHost;
    readonly imports: string;
    readonly broken: string;
  }> {
    const directory = await testDirectory();
    const [imports, broken] = [`${directory}/imports`, `${directory}/broken`];
    await writeFile(
      `${directory}/fragile.ts`,
      `import { appendFileSync, existsSync } from 'node:fs'; appendFileSync('${imports}', 'imported\\n');\n` +
        `if (existsSync('${broken}')) throw new Error('too many\\nopen files');\n` +
        `export const description = 'Mine.'; export const parameters = { type: 'object' };\n` +
        `export const sideEffects = 'none'; export const run = () => 'ran';\n`,
    );
    const host = await startTestHost({ threads: 1, toolsDirs: [directory, TOOLS_DIR] });
    // One after the other, so that there is one thread.
    for (const tool of ['fragile', 'echo', 'fragile', 'echo']) await host.runCalls([callOf(tool)]);
    await writeFile(broken, '');
    await host.runCalls([callOf('exits')]);
    return { host, imports, broken };
  }
  const line =
    '[tool-host] a thread could not import the module of fragile and is ended: Error: too many open files';

  test('is imported by another, and its calls only wait', async () => {
    const { host, broken } = await startWithFragile();
    const running = host.runCalls(Array.from({ length: 40 }, () => callOf('fragile')));
    await until(() => host.ownLog.includes(line));
    await rm(broken);
    expect(new Set((await running).map(({ result }) => result))).toEqual(new Set(['ran']));
  });

  test.for([
    ['because it takes too long', 3_000, []],
    ['because of code of an ended call', 10_000, ['leaves_timer']],
  ] as const)('in one thread, %s, is imported by another', async ([, loadTimeoutMs, before]) => {
    const directory = await testDirectory();
    const hangs = `${directory}/hangs`;
    await writeFile(
      `${directory}/hesitant.ts`,
      `import { existsSync, rmSync } from 'node:fs';\n` +
        `if (existsSync('${hangs}')) { rmSync('${hangs}'); await new Promise(() => {}); }\n` +
        `export const description = 'Mine.'; export const parameters = { type: 'object' };\n` +
        `export const run = () => 'ran';\n`,
    );
    const host = await startTestHost({ threads: 1, toolsDirs: [directory, TOOLS_DIR], loadTimeoutMs });
    await host.runCalls([callOf('exits')]);
    await host.runCalls(before.map((tool) => callOf(tool, { ms: 500 })));
    await writeFile(hangs, '');
    const outcomes = await host.runCalls(Array.from({ length: 4 }, () => callOf('hesitant')));
    expect(outcomes.map(({ result }) => result)).toEqual(Array<string>(4).fill('ran'));
  });

  test('fails its calls after ten consecutive failures, and costs others only time', async () => {
    const { host, imports, broken } = await startWithFragile();
    const before = (await linesOf(imports)).length;
    const outcomes = await host.runCalls(
      Array.from({ length: 800 }, (_, index) =>
        callOf(index % 2 === 0 ? 'fragile' : 'echo', { text: 'well' }),
      ),
    );
    expect(new Set(outcomes.filter((_, index) => index % 2 === 1).map(({ result }) => result))).toEqual(
      new Set(['well']),
    );
    const error = 'the module of fragile could not be imported by a new thread (Error: too many\nopen files)';
    for (const outcome of outcomes.filter((_, index) => index % 2 === 0))
      expect(outcome).toMatchObject({ status: 'failed', started: false, result: error, error });
    const tries = (await linesOf(imports)).length - before;
    expect(tries).toBeGreaterThanOrEqual(10);
    expect(tries, 'of those begun before the first had failed each thread may have one').toBeLessThan(13);
    await rm(broken);
    expect(statuses(await host.runCalls([callOf('fragile')])), 'mended').toEqual(['succeeded']);
  });
});

describe('the process of the host', () => {
  test('killed: running calls run once more, except `once` calls, and later calls run as usual', async () => {
    const host = await startTestHost({ threads: 1 });
    const directory = await testDirectory();
    const [ledger, notes] = [`${directory}/ledger`, `${directory}/notes`];
    const paying = host.runCalls(Array.from({ length: 3 }, () => callOf('pay_once', { ledger, ms: 30_000 })));
    const noting = host.runCalls(
      Array.from({ length: 2 }, () => callOf('note_idempotent', { ledger: notes, ms: 30_000 })),
    );
    await until(async () => (await linesOf(ledger)).length === 3 && (await linesOf(notes)).length === 2);
    const before = host.pid();
    process.kill(before as number, 'SIGKILL');
    const paid = await paying;
    await until(async () => (await linesOf(notes)).length === 4);
    process.kill(host.pid() as number, 'SIGKILL');
    const outcomes = [...paid, ...(await noting)];
    expect(statuses(outcomes)).toEqual(Array.from({ length: 5 }, () => 'crashed'));
    expect(outcomes.every((outcome) => outcome.started)).toBe(true);
    expect(outcomes[0]?.error).toMatch(
      /^the tool host ended while the call was under way: it was ended by SIGKILL/,
    );

    expect((await host.runCalls([callOf('echo', { text: 'again' })]))[0]?.result).toBe('again');
    expect(host.pid()).not.toBe(before);
    expect(await linesOf(ledger), 'nothing that may run only once was run again').toHaveLength(3);
    expect(new Set(await linesOf(notes)).size).toBe(2);
    expect(await linesOf(notes), 'nothing was run a third time').toHaveLength(4);
  });

  test('killed: its last output goes to the log, and not to calls of other tools', async () => {
    const host = await startTestHost({ threads: 1 });
    const ledger = `${await testDirectory()}/ledger`;
    const text = `secret of A ${'x'.repeat(2_000)}`;
    await host.runCalls([callOf('says_in_child', { text })]);
    await until(() => host.log.includes(text));
    const running = host.runCalls([callOf('pay_once', { ledger, ms: 30_000 })]);
    await until(async () => (await linesOf(ledger)).length === 1);
    process.kill(host.pid()!, 'SIGKILL');
    const error = 'the tool host ended while the call was under way: it was ended by SIGKILL';
    expect(await running).toMatchObject([{ status: 'crashed', result: error, error }]);
    expect(host.ownLog.at(-1)).toBe(
      `[tool-host] process gone: it was ended by SIGKILL; its last lines: ${text}`,
    );
  });

  test('killed by a tool: only the running calls are lost', async () => {
    const host = await startTestHost({ threads: 2 });
    const outcomes = await host.runCalls([
      callOf('kills_host'),
      ...Array.from({ length: 6_000 }, (_, index) => callOf('echo', { text: String(index) })),
    ]);
    expect(outcomes[0]).toMatchObject({ status: 'crashed', started: true });
    const lost = outcomes.slice(1).filter((outcome) => outcome.status !== 'succeeded');
    expect(statuses(lost).every((status) => status === 'crashed')).toBe(true);
    expect(lost.length, 'four threads have a call each beside it when it kills again').toBeLessThan(4);
    expect((await host.runCalls([callOf('echo', { text: 'again' })]))[0]?.status).toBe('succeeded');
  });

  test('killed by several tools in sequence: no call that had not started is lost', async () => {
    const host = await startTestHost({ threads: 1 });
    // All may end with the first process; repeated alone, at most two with each that follows.
    const killers = Array.from({ length: 5 }, () => callOf('kills_host'));
    const outcomes = await host.runCalls([
      ...killers,
      ...Array.from({ length: 100 }, (_, index) => callOf('echo', { text: String(index) })),
    ]);
    expect(statuses(outcomes.slice(0, 5))).toEqual(killers.map(() => 'crashed'));
    expect(host.ownLog.filter((line) => line.includes('process gone')).length).toBeGreaterThanOrEqual(4);
    expect(outcomes.filter(({ status, started }) => status !== 'succeeded' && !started)).toEqual([]);
  });

  test.for(['SIGTERM', 'SIGINT'] as const)(
    'survives a %s, which goes to its whole group or unit when the worker is stopped',
    async (signal) => {
      const host = await startTestHost();
      const ledger = `${await testDirectory()}/ledger`;
      const running = host.runCalls([callOf('pay_once', { ledger, ms: 300 })]);
      await until(async () => (await linesOf(ledger)).length === 1);
      process.kill(host.pid()!, signal);
      expect(statuses(await running)).toEqual(['succeeded']);
    },
  );

  test.skipIf(process.platform !== 'linux')(
    'a `once` call is not resent if a frame cannot be written before the last frames are read',
    async () => {
      const host = await startTestHost();
      const directory = await testDirectory();
      const ledger = `${directory}/ledger`;
      const before = host.pid()!;
      await host.runCalls([callOf('pay_once', { ledger })]);
      const running = host.runCalls([callOf('pay_once', { ledger, kill: true })]);
      // The worker is busy until the host's last output is unread when it writes again.
      const deadlineMs = performance.now() + 10_000;
      while (!isZombie(before) && performance.now() < deadlineMs);
      const next = host.runCalls([callOf('echo', { text: 'next' })]);
      await Promise.all([running, next]);
      expect(await linesOf(ledger)).toHaveLength(2);
      expect(await running).toMatchObject([{ status: 'crashed', started: true }]);
      expect(statuses(await next)).toEqual(['succeeded']);
    },
  );

  test('restarted without a module that it had: the log gives the reason', async () => {
    const directory = await testDirectory();
    const file = `${directory}/mine.js`;
    await writeFile(
      file,
      `export const description = 'Mine.'; export const parameters = { type: 'object' }; export const run = () => 'mine';`,
    );
    const host = await startTestHost({ toolsDirs: [directory] });
    expect(host.ownLog).toEqual([]);
    await writeFile(file, 'export const');
    process.kill(host.pid()!, 'SIGKILL');
    expect(statuses(await host.runCalls([callOf('mine')]))).toEqual(['failed']);
    expect(host.ownLog.at(-1)).toMatch(
      /^\[tool-host\] tool module left out: .*mine\.js: could not be imported: SyntaxError/,
    );
  });

  test('not restartable: callers get the outcomes of their calls', async () => {
    const directory = await testDirectory();
    const nodePath = `${directory}/node`;
    const ledger = `${directory}/ledger`;
    await symlink(process.execPath, nodePath);
    const host = await startTestHost({ threads: 1, nodePath });
    const running = host.runCalls([
      callOf('no_such_tool'),
      callOf('pay_once', { ledger, ms: 30_000 }),
      ...Array.from({ length: 300 }, () => callOf('slow', { ms: 30_000 })),
    ]);
    await until(async () => (await linesOf(ledger)).length === 1);
    await rm(nodePath);
    process.kill(host.pid()!, 'SIGKILL');
    const outcomes = await running;
    expect(outcomes).toHaveLength(302);
    expect(outcomes[0]).toMatchObject({
      status: 'failed',
      result: 'Tool not found: no_such_tool. It has no module here any more; go on without it.',
    });
    expect(outcomes[1]).toMatchObject({ status: 'crashed', started: true });
    expect(outcomes[301]).toMatchObject({ status: 'crashed', started: false, unavailable: true });
  });

  test('ends when the process that started it is killed', async () => {
    const owner = spawn(process.execPath, [fileURLToPath(new URL('./fixtures/owner.ts', import.meta.url))], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [printed] = (await once(owner.stdout, 'data')) as [Buffer];
    const hostPid = Number(printed.toString());
    expect(await isAlive(hostPid)).toBe(true);
    owner.kill('SIGKILL');
    await once(owner, 'exit');
    await until(async () => !(await isAlive(hostPid)));
  });
});

describe('tools have no access to', () => {
  test('the environment of the worker', async () => {
    process.env['NIGHTSHIFT_CANARY'] = 'sk-ant-canary-0001';
    process.env['DATABASE_URL'] ??= 'postgres://canary-0002';
    try {
      const host = await startTestHost();
      const [outcome] = await host.runCalls([callOf('peeks')]);
      expect(outcome?.status).toBe('succeeded');
      expect(outcome?.result).not.toMatch(/canary|DATABASE_URL/i);
      const seen = JSON.parse(outcome?.result ?? '') as { readonly env: Record<string, string> };
      expect(['PATH', 'TZ', 'LANG']).toEqual(expect.arrayContaining(Object.keys(seen.env)));
    } finally {
      delete process.env['NIGHTSHIFT_CANARY'];
      if (process.env['DATABASE_URL'] === 'postgres://canary-0002') delete process.env['DATABASE_URL'];
    }
  });

  test("the frames: any tool output is a log line under the tool's name, of limited length", async () => {
    const host = await startTestHost();
    const outcomes = await host.runCalls([
      callOf('prints', {}, { tool_use_id: 'toolu_p' }),
      callOf('echo', { text: 'intact' }),
    ]);
    expect(outcomes.map((outcome) => outcome.result)).toEqual(['printed', 'intact']);
    await until(() => host.log.some((line) => line.includes('from console.error')));
    await until(() => host.log.includes('straight to descriptor 1'));
    expect(host.log).toContain('[prints toolu_p] line 0 from console.log');
    expect(host.log).toContain('[prints toolu_p] from process.stdout');

    await host.runCalls([callOf('prints', { lines: 100_000 }, { tool_use_id: 'toolu_q' })]);
    await until(() => host.log.includes('[prints toolu_q] (further output is dropped)'));
    expect(host.log.filter((line) => line.startsWith('[prints toolu_q]')).length).toBeLessThan(1_000);
  });

  test('tool output is distinguished from host output, with long lines and when the host dies', async () => {
    const host = await startTestHost();
    await host.runCalls([callOf('prints', { chars: 16_000 }), callOf('prints')]);
    await until(() => host.log.includes('straight to descriptor 1'));
    expect(host.ownLog).toEqual([]);

    process.kill(host.pid()!, 'SIGKILL');
    await until(() => host.ownLog.length > 0);
    expect(host.ownLog).toEqual(['[tool-host] process gone: it was ended by SIGKILL']);
  });
});

/** Whether the process has ended without its exit code being read; for a test that blocks everything else. */
function isZombie(pid: number): boolean {
  return (
    readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ') &&
    readdirSync(`/proc/${pid}/task`).length === 1
  );
}
