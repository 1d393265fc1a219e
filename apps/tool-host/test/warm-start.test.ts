import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readThreadSources } from '../src/thread-sources.ts';
import { callOf, linesOf, startTestHost, testDirectory } from './support/tool-hosts.ts';

const DESCRIBED = `export const description = 'A tool.'; export const parameters = { type: 'object' };\n`;

/** Returns a module that writes its thread's id at each import. */
const counted = (imports: string): string =>
  `${DESCRIBED}import { appendFileSync } from 'node:fs'; import { threadId } from 'node:worker_threads';\n` +
  `appendFileSync('${imports}', threadId + '\\n'); export const run = (): string => 'ran';\n`;

test('every fast thread has imported every module once before the host is ready, and again after a restart', async () => {
  const dir = await testDirectory();
  const imports = { one: join(dir, 'one.txt'), two: join(dir, 'two.txt') };
  await writeFile(join(dir, 'one.ts'), counted(imports.one));
  await writeFile(join(dir, 'two.ts'), counted(imports.two));
  const host = await startTestHost({ toolsDirs: [dir], threads: 3 });
  for (const file of Object.values(imports)) {
    const threads = await linesOf(file);
    expect(threads).toHaveLength(3);
    expect(new Set(threads).size).toBe(3);
  }
  const [outcome] = await host.runCalls([callOf('one')]);
  expect(outcome?.result).toBe('ran');
  expect(await linesOf(imports.one), 'the first call imports nothing').toHaveLength(3);
  process.kill(host.pid()!, 'SIGKILL');
  await host.runCalls([callOf('one')]);
  expect(await linesOf(imports.one)).toHaveLength(6);
});

test.for([
  ['hangs', 'await new Promise(() => {});'],
  ['spins', 'for (;;);'],
  ['throws', `throw new Error('only once');`],
  ['exits', 'process.exit(3);'],
])('a module that %s when a second thread imports it harms no other', async ([, harm]) => {
  const dir = await testDirectory();
  await writeFile(join(dir, 'fine.ts'), `${DESCRIBED}export const run = () => 'unharmed';`);
  await writeFile(
    join(dir, 'first_only.ts'),
    `${DESCRIBED}import { openSync } from 'node:fs';\n` +
      `let first = true; try { openSync('${dir}/taken', 'wx'); } catch { first = false; }\n` +
      `if (!first) { ${harm} }\nexport const run = () => 'ran';`,
  );
  const host = await startTestHost({ toolsDirs: [dir], loadTimeoutMs: 3_000 });
  expect(host.listTools().map(({ name }) => name)).toEqual(['fine', 'first_only']);
  const outcomes = await host.runCalls(Array.from({ length: 40 }, () => callOf('fine')));
  expect(new Set(outcomes.map(({ result }) => result))).toEqual(new Set(['unharmed']));
});

test('a thread that starts later has the same modules and imports as the first threads', async () => {
  const dir = await testDirectory();
  const write = async (version: string): Promise<void> => {
    await writeFile(join(dir, '_part.js'), `export const part = 'part ${version}';`);
    await writeFile(join(dir, '_parts.mjs'), `globalThis.parts = 'parts ${version}';`);
    for (const name of ['one.ts', 'two.js', 'three.mjs']) {
      await writeFile(
        join(dir, name),
        `import { part } from './_part.js'; import './_parts.mjs';\n${DESCRIBED}export const sideEffects = 'none';\n` +
          `export const run = (args) => args.exit ? process.exit(1) : '${version} ' + part + ' ' + globalThis.parts;`,
      );
    }
  };
  await write('1');
  const host = await startTestHost({ toolsDirs: [dir], threads: 1 });
  await write('2');
  for (const tool of ['one', 'two', 'three']) {
    const before = await host.runCalls([callOf(tool)]);
    await host.runCalls([callOf(tool, { exit: true })]);
    const [outcome] = await host.runCalls([callOf(tool)]);
    expect(outcome?.result).toBe('1 part 1 parts 1');
    expect(outcome?.result).toBe(before[0]?.result);
  }
});

test('a one-line module that exports at its end is an ordinary ES module', async () => {
  const dir = await testDirectory();
  const file = join(dir, 'minified.js');
  const write = (version: number): Promise<void> =>
    writeFile(
      file,
      `const d="A tool.",p={type:"object"},s="none",r=a=>a.exit?process.exit(1):"${version}";` +
        `export{d as description,p as parameters,s as sideEffects,r as run};`,
    );
  await write(1);
  const host = await startTestHost({ toolsDirs: [dir], threads: 1 });
  await write(2);
  await host.runCalls([callOf('minified', { exit: true })]);
  expect((await host.runCalls([callOf('minified')]))[0]?.result).toBe('1');
});

test('of large modules threads hold only TypeScript, whose types are costly to remove', async () => {
  const dir = await testDirectory();
  const padding = `// ${'x'.repeat(256 * 1024)}\n`;
  const names = ['large_a.js', 'large_b.mjs', 'large_c.ts', 'small_a.js', 'small_b.mjs'];
  for (const name of names) {
    const start = name.startsWith('large') ? padding : '';
    await writeFile(join(dir, name), `${start}${DESCRIBED}export const run = () => 'ran';`);
  }
  const sources = await readThreadSources(names.map((name) => join(dir, name)));
  const held = names.filter((name) => [...sources.keys()].some((url) => url.endsWith(`/${name}`)));
  expect(held).toEqual(['large_c.ts', 'small_a.js', 'small_b.mjs']);
  const host = await startTestHost({ toolsDirs: [dir] });
  const outcomes = await host.runCalls(['large_a', 'large_b', 'large_c'].map((tool) => callOf(tool)));
  expect(outcomes.map(({ result }) => result)).toEqual(['ran', 'ran', 'ran']);
});

test.for([
  ['no package.json', undefined],
  ['one that says so', '{"type":"commonjs"}'],
] as const)('JavaScript beside %s may be CommonJS', async ([, manifest]) => {
  const dir = await testDirectory();
  if (manifest !== undefined) await writeFile(join(dir, 'package.json'), manifest);
  await writeFile(join(dir, '_helper.js'), `module.exports = { say: (text) => text };`);
  await writeFile(
    join(dir, 'common.js'),
    `const { say } = require('./_helper.js');\n` +
      `module.exports = { description: 'A tool.', parameters: { type: 'object' }, run: () => say('common') };`,
  );
  const host = await startTestHost({ toolsDirs: [dir] });
  expect(host.listProblems()).toEqual([]);
  expect((await host.runCalls([callOf('common')]))[0]?.result).toBe('common');
});

test('JavaScript may be CommonJS that returns early and imports ES modules later', async () => {
  const dir = await testDirectory();
  await writeFile(join(dir, '_say.mjs'), `export const say = (text) => text;`);
  await writeFile(
    join(dir, 'common.js'),
    `#!/usr/bin/env node\n` +
      `const run = async () => (await\nimport('./_say.mjs')).say('common');\n` +
      `module.exports = { description: 'A tool.', parameters: { type: 'object' }, run };\n` +
      `if (require.main !== module) return;\n`,
  );
  const host = await startTestHost({ toolsDirs: [dir] });
  expect(host.listProblems()).toEqual([]);
  expect((await host.runCalls([callOf('common')]))[0]?.result).toBe('common');
});

test('TypeScript runs anywhere with its types removed: in helpers, in CommonJS; code that cannot be stripped is reported', async () => {
  const dir = await testDirectory();
  await writeFile(join(dir, '_helper.ts'), `export const say = (text: string): string => text;`);
  await writeFile(
    join(dir, 'helped.ts'),
    `import { say } from './_helper.ts';\n${DESCRIBED}export const run = (): string => say('helped');`,
  );
  await writeFile(
    join(dir, 'common.ts'),
    `const run = (): string => 'common';\n` +
      `module.exports = { description: 'A tool.', parameters: { type: 'object' }, run };`,
  );
  await writeFile(
    join(dir, 'enumerates.ts'),
    `${DESCRIBED}enum Kind { A }\nexport const run = () => Kind.A;`,
  );
  const host = await startTestHost({ toolsDirs: [dir] });
  expect(host.listProblems()).toEqual([
    {
      file: join(dir, 'enumerates.ts'),
      reason: expect.stringMatching(/^could not be imported: SyntaxError: .*enum/s),
    },
  ]);
  const outcomes = await host.runCalls([callOf('helped'), callOf('common')]);
  expect(outcomes.map(({ result }) => result)).toEqual(['helped', 'common']);
  expect(host.log).toEqual([]);
});
