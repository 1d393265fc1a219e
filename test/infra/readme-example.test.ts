import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { findFreePort } from '../../libs/services/src/index.ts';
import { startStack } from '../../scripts/stack/stack.ts';
import { read, root } from './repository.ts';

const programs = ['bash', 'curl'];

/** Commands that take long or need Docker, each with its own test. */
const TESTED_ELSEWHERE: readonly (readonly [command: RegExp, testFile: string])[] = [
  [/^npm run demo$/, 'test/infra/readme-example.test.ts'],
  [/^(WORKERS=8 )?npm start$/, 'test/stack/start.test.ts'],
  [/^\S+ docker compose --profile simulated up /, 'test/infra/compose.test.ts'],
  [/^\S+ \S+ docker compose up --build$/, 'test/infra/compose.test.ts'],
];

function fencesOf(language: string): readonly string[] {
  const fences = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm');
  return [...read('README.md').matchAll(fences)].map(([, body = '']) => body);
}

test('the README has at most 1,200 words', () => {
  const words = read('README.md').split(/\s+/).filter(Boolean);
  expect(words.length).toBeLessThanOrEqual(1_200);
});

test('every command of the README is run by a test', () => {
  const languages = [...read('README.md').matchAll(/^```(\w+)$/gm)].map(([, language]) => language);
  expect(new Set(languages)).toEqual(new Set(['sh', 'bash', 'text']));
  const commands = fencesOf('sh').flatMap((fence) => fence.trim().split('\n'));
  const untested = commands.filter((line) => !TESTED_ELSEWHERE.some(([command]) => command.test(line)));
  expect(untested).toEqual([]);
  expect(TESTED_ELSEWHERE.filter(([, file]) => !existsSync(join(root, file)))).toEqual([]);
});

test("the README's session works as documented", async (context) => {
  const missing = programs.filter((program) => spawnSync(program, ['--version']).status !== 0);
  if (missing.length > 0) context.skip(`there is no ${missing.join(' and no ')} here`);

  const session = fencesOf('bash').join('');
  expect(session).toMatch(/^URL=http:\/\/127\.0\.0\.1:8283 KEY=\$\(cat \.data\/api-key\)$/m);

  const database = await openTestDatabase(inject('postgresUrl'));
  onTestFinished(() => database.close());
  const dataDir = mkdtempSync(join(tmpdir(), 'nightshift-readme-'));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const stack = await startStack({
    dataDir,
    workers: 1,
    port: await findFreePort(),
    toolsDir: '',
    databaseUrl: database.url,
    queueUrl: 'none',
    simulatorLatency: 'uniform:50-100',
    workerEnv: { POLL_INTERVAL_MS: '100', GATHER_WINDOW_MS: '50', SWEEP_INTERVAL_MS: '100' },
  });
  onTestFinished(() => stack.stop());

  // The address and key differ from a reader's.
  const script = session.replace(/^URL=\S+ KEY=\S+ \S+$/m, `URL=${stack.apiUrl} KEY=${stack.apiKey}`);
  const { output, errors, code } = await run(['bash', '-c', script]);
  expect({ errors, code }).toEqual({ errors: '', code: 0 });

  expect(output).toMatch(/needs a cap of \$/);
  expect(output).toMatch(/^running$/m);
  expect(output).toMatch(/\bcompleted: 1\b/);
  expect(output).toMatch(/^run-[0-9a-f-]{36} completed 0\.\d+$/m);
  expect(output).toMatch(/\[ 'user', 'assistant', 'tool', 'assistant' \]/);
  expect(output.match(/^\+Prefers e-mail\.$/gm)).toHaveLength(2);
  expect(output.match(/^Prefers e-mail\.$/gm)).toHaveLength(1);
  expect(output.match(/^New customer\.$/gm)).toHaveLength(1);
  expect(output).toContain("'first: user'");
  expect(output).toContain("'second: assistant'");
});

test("a small demo passes and prints the README's lines", async () => {
  const database = await openTestDatabase(inject('postgresUrl'));
  onTestFinished(() => database.close());
  const dataDir = mkdtempSync(join(tmpdir(), 'nightshift-readme-'));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const env = { DATA_DIR: dataDir, DATABASE_URL: database.url, PORT: '0' };
  const { output, code } = await run(
    [process.execPath, 'scripts/demo.ts', '--agents', '8', '--no-chaos'],
    env,
  );
  const [picture = ''] = fencesOf('text');
  const shape = (line: string): string => line.replaceAll(/[\d.,]+/g, '#').replace(/:.*/, '');
  const printed = new Set(output.split('\n').map(shape));
  const checks = picture.split('\n').filter((line) => /^(Model|  ✔)/.test(line));
  expect(checks).toHaveLength(4);
  expect(checks.map(shape).filter((line) => !printed.has(line))).toEqual([]);
  expect(code).toBe(0);
});

interface Ended {
  readonly output: string;
  readonly errors: string;
  readonly code: number | null;
}

async function run(
  [program = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const path = [dirname(process.execPath), process.env.PATH ?? ''].join(delimiter);
  const child = spawn(program, args, {
    cwd: root,
    env: { PATH: path, NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { output, errors, code };
}
