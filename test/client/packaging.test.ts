import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packClient, type PackedClient } from '../../scripts/client/pack-client.ts';

const root = join(import.meta.dirname, '../..');
const bin = (name: string): string => join(root, 'node_modules/.bin', name);

let dir: string;
let packed: PackedClient;
beforeAll(() => {
  mkdirSync(join(root, '.data'), { recursive: true });
  dir = mkdtempSync(join(root, '.data/packed-'));
  packed = packClient(join(dir, 'pack'));
});
afterAll(() => rmSync(dir, { recursive: true }));

function run(
  path: string,
  ...args: readonly string[]
): { readonly status: number | null; readonly output: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [path, ...args], {
    cwd: dir,
    encoding: 'utf8',
  });
  return { status, output: `${stdout}${stderr}` };
}

test('publint finds nothing', () => {
  expect(run(bin('publint'), 'run', packed.file, '--strict')).toEqual({
    status: 0,
    output: expect.stringContaining('All good!') as string,
  });
});

test('@arethetypeswrong/cli finds nothing', () => {
  const { status, output } = run(bin('attw'), packed.file, '--profile', 'esm-only', '--format', 'json');
  expect(status, output).toBe(0);
});

test('the package is small', () => {
  expect(packed.size).toBeLessThan(120_000);
});

/** An importing program that uses each kind of type: generated, by hand, streams, errors. */
const PROGRAM = `
import { createNightshift, isApiError, webhooks, type Batch, type RunResult } from '@nightshift/client';

const nightshift = createNightshift({ url: 'http://127.0.0.1:8283', apiKey: 'key', onRetry: ({ delayMs }) => void delayMs.toFixed() });
const batch: Batch = await nightshift.batches.create({ requests: [{ agent_id: 'agent-1', input: 'Hello' }] });
const wrong: number = batch.id;
await nightshift.batches.createFromFile(new Blob([]).stream(), { encoding: 'gzip' });
await nightshift.batches.createFromFile('tasks.jsonl');
const ended = await nightshift.batches.wait(batch.id, { onProgress: ({ percent }) => void percent.toFixed(), signal: AbortSignal.timeout(1) });
const results: RunResult[] = [];
for await (const result of nightshift.batches.results(ended.id, { order: 'finished' })) results.push(result);
for await (const { name } of nightshift.agents.list()) void name.length;
const answer: Response = await nightshift.request('GET', '/livez');
const event = await webhooks.verify(await answer.text(), answer.headers, 'whsec_');
if (event.type === undefined) void event.counts.total;
else void event.data['runs'];
try {
  await nightshift.agents.retrieve('agent-1');
} catch (error) {
  if (isApiError(error, 'not_found')) void error.requestId?.length;
}
`;

const NODE16 = { module: 'node16', moduleResolution: 'node16' };
const BUNDLER = { module: 'esnext', moduleResolution: 'bundler' };
const DOM = { lib: ['es2023', 'dom', 'dom.iterable', 'dom.asynciterable'], types: [] };
const NODE = { lib: ['es2023'], types: ['node'] };

test.each([
  ['node16', 'Node', { ...NODE16, ...NODE }],
  ['node16', 'browser', { ...NODE16, ...DOM }],
  ['bundler', 'Node', { ...BUNDLER, ...NODE }],
  ['bundler', 'browser', { ...BUNDLER, ...DOM }],
])(
  'in an empty project its types check under %s resolution, with the types of a %s',
  (resolution, types, options) => {
    const project = join(dir, `${resolution}-${types}`);
    const modules = join(project, 'node_modules');
    mkdirSync(join(modules, '@nightshift/client'), { recursive: true });
    mkdirSync(join(modules, '@types'), { recursive: true });
    spawnSync('tar', [
      '-xzf',
      packed.file,
      '-C',
      join(modules, '@nightshift/client'),
      '--strip-components=1',
    ]);
    symlinkSync(join(root, 'node_modules/@types/node'), join(modules, '@types/node'));
    writeFileSync(join(project, 'package.json'), JSON.stringify({ type: 'module' }));
    writeFileSync(join(project, 'program.ts'), PROGRAM);
    const strict = {
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
    };
    const compilerOptions = { ...options, ...strict, target: 'es2022', noEmit: true };
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['program.ts'] }));
    const { output } = run(bin('tsc'), '-p', project);
    // The one wrong line shows that types are checked at all.
    expect(output.trim()).toMatch(
      /^\S*program\.ts\(6,7\): error TS2322: Type 'string' is not assignable to type 'number'\.$/,
    );
  },
);
