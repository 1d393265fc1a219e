import { rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { BAD_TOOLS_DIR, callOf, startTestHost, testDirectory, TOOLS_DIR } from './support/tool-hosts.ts';

test('usable tools are listed by name with their defaults filled in', async () => {
  const host = await startTestHost();
  const names = host.listTools().map((tool) => tool.name);
  expect(names).toEqual([...names].sort());
  expect(names).not.toContain('_hidden');
  expect(names).not.toContain('types.d');
  expect(host.listTools().find((tool) => tool.name === 'nothing')).toEqual({
    name: 'nothing',
    description: 'Returns undefined.',
    parameters: { type: 'object' },
    // A module without the export is not repeated.
    side_effects: 'once',
    speed: 'fast',
    concurrency: null,
    timeout_ms: 30_000,
    result_char_limit: 50_000,
    file: join(TOOLS_DIR, 'nothing.ts'),
  });
  expect(host.listTools().find((tool) => tool.name === 'pay_once')?.side_effects).toBe('once');
  expect(host.listProblems()).toEqual([]);
});

test('a bad module, or one with an unknown export, is reported with file and reason; the others are usable', async () => {
  const missing = join(BAD_TOOLS_DIR, 'missing');
  const host = await startTestHost({
    toolsDirs: [TOOLS_DIR, BAD_TOOLS_DIR, missing],
    loadTimeoutMs: 5_000,
  });
  expect(host.listProblems().map(({ file, reason }) => [basename(file), reason])).toEqual([
    [
      'asks_first.js',
      expect.stringMatching(
        /^exports 'requiresApproval', which is not part of a tool; .*approvals are set through the API.*PATCH \/v1\/tools/,
      ),
    ],
    ['bad name.js', expect.stringMatching(/^'bad name' is not a tool name/)],
    ['bad_effects.js', "sideEffects must be one of 'none', 'idempotent', 'once'"],
    ['bad_import.mjs', expect.stringMatching(/^could not be imported: SyntaxError/)],
    ['default_run.js', expect.stringMatching(/^exports a default; .*export function run\(args, context\)/)],
    ['echo.js', expect.stringMatching(/^a tool named 'echo' is already defined by .*echo\.ts/)],
    [
      'helper.js',
      expect.stringMatching(/^exports 'timeout', which is not part of a tool; .*timeoutMs(?!.*approval)/),
    ],
    ['import_exits.ts', expect.stringMatching(/^importing it ended its thread \(process\.exit\(3\)\)/)],
    ['import_hangs.ts', expect.stringMatching(/^importing it took longer than 5000 ms/)],
    ['import_throws.ts', 'could not be imported: Error: this module throws while it is imported'],
    [
      'import_throws_null.ts',
      expect.stringMatching(/^importing it ended its thread \(uncaught Error: null\)/),
    ],
    [
      'import_throws_undefined.ts',
      expect.stringMatching(/^importing it ended its thread \(uncaught Error: undefined\)/),
    ],
    ['missing', expect.stringMatching(/^the tools folder cannot be read: ENOENT/)],
    ['no_run.ts', expect.stringMatching(/^run must be a function/)],
    ['no_schema.ts', expect.stringMatching(/^parameters\.type must be 'object'/)],
    ['snake_case.js', "exports 'side_effects'; the name is sideEffects"],
  ]);
  expect(host.listTools().find((tool) => tool.name === 'good')).toMatchObject({
    side_effects: 'idempotent',
    timeout_ms: 1_500,
    result_char_limit: 100,
  });
  const outcomes = await host.runCalls([callOf('good'), callOf('no_run')]);
  expect(outcomes.map((outcome) => outcome.status)).toEqual(['succeeded', 'failed']);
});

test('an error thrown beside an import belongs to its own module, not to the next', async () => {
  const dir = await testDirectory();
  const tool = `export const description = 'A tool.'; export const parameters = { type: 'object' }; export const run = () => '';`;
  const names = Array.from(
    { length: 4 },
    (_, number) => [`tool_${number}`, `tool_${number}_throws`] as const,
  );
  for (const [good, bad] of names) {
    await writeFile(join(dir, `${good}.js`), tool);
    await writeFile(join(dir, `${bad}.js`), `${tool} setImmediate(() => { throw new Error('beside'); });`);
  }
  const host = await startTestHost({ toolsDirs: [dir], threads: 1 });
  expect(host.listTools().map(({ name }) => name)).toEqual(names.map(([good]) => good));
  for (const { reason } of host.listProblems())
    expect(reason).toMatch(/^importing it ended its thread \(uncaught Error: beside\)/);
});

test('a restart reads the folders again: new code runs and removed tools are gone', async () => {
  const dir = await testDirectory();
  const moduleText = (answer: string): string =>
    `export const description = 'Answers.'; export const parameters = { type: 'object' };\n` +
    `export const run = () => '${answer}';\n`;
  await writeFile(join(dir, 'answer.mjs'), moduleText('before'));
  await writeFile(join(dir, 'leaving.mjs'), moduleText('still here'));
  const host = await startTestHost({ toolsDirs: [dir] });
  expect((await host.runCalls([callOf('answer')]))[0]?.result).toBe('before');

  await writeFile(join(dir, 'answer.mjs'), moduleText('after'));
  await writeFile(join(dir, 'arriving.mjs'), moduleText('new'));
  await rm(join(dir, 'leaving.mjs'));
  process.kill(host.pid()!, 'SIGKILL');
  const outcomes = await host.runCalls([callOf('answer'), callOf('arriving'), callOf('leaving')]);
  expect(outcomes.map((outcome) => outcome.result)).toEqual([
    'after',
    'new',
    'Tool not found: leaving. It has no module here any more; go on without it.',
  ]);
  expect(host.listTools().map((tool) => tool.name)).toEqual(['answer', 'arriving']);
});

test('a module declares its speed and its concurrency; wrong values are reported', async () => {
  const dir = await testDirectory();
  const write = (name: string, more: string): Promise<void> =>
    writeFile(
      join(dir, `${name}.js`),
      `export const description = 'A tool.'; export const parameters = { type: 'object' };\n` +
        `export const sideEffects = 'none'; export const run = () => '${name} ran'; ${more}`,
    );
  await write('long', `export const speed = 'slow';`);
  await write('waits', `export const concurrency = 500;`);
  await write('wrong_concurrency', `export const concurrency = 10_001;`);
  await write('wrong_speed', `export const speed = 'quick';`);
  const host = await startTestHost({ toolsDirs: [dir] });
  expect(host.listTools()).toMatchObject([
    { name: 'long', speed: 'slow', concurrency: null },
    { name: 'waits', speed: 'fast', concurrency: 500 },
  ]);
  expect(host.listProblems().map(({ reason }) => reason)).toEqual([
    'concurrency must be a whole number of calls from 1 to 10000',
    `speed must be 'fast' or 'slow'`,
  ]);
  const [long, waits] = await host.runCalls([callOf('long'), callOf('waits')]);
  expect(long).toMatchObject({ status: 'succeeded', result: 'long ran' });
  expect(waits).toMatchObject({ status: 'failed', started: false });
  expect(waits?.error).toMatch(/^waits exports concurrency, so another process runs it/);
});
