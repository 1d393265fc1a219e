import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { findFreePort } from '../../libs/services/src/index.ts';
import { startStack } from '../../scripts/stack/stack.ts';
import { read } from './repository.ts';

const programs = ['bash', 'curl'];

test('the examples in the README do what they say, as they stand there', async (context) => {
  const missing = programs.filter((program) => spawnSync(program, ['--version']).status !== 0);
  if (missing.length > 0) context.skip(`there is no ${missing.join(' and no ')} here`);

  const blocks = [...read('README.md').matchAll(/^```bash\n([\s\S]*?)^```$/gm)];
  const example = blocks.map(([, block = '']) => block).join('');
  expect(example).toMatch(/^URL=http:\/\/127\.0\.0\.1:8283 KEY=\$\(cat \.data\/api-key\) /);

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

  // All that differs from a reader's machine: where the service listens, and its key.
  const script = example.replace(/^URL=\S+ KEY=\S+ \S+/, `URL=${stack.apiUrl} KEY=${stack.apiKey}`);
  const { output, errors, code } = await run(script);
  expect({ errors, code }).toEqual({ errors: '', code: 0 });
  expect(output.match(/^Customer 5 prefers e-mail\.$/gm)).toHaveLength(2);
  expect(output.trimEnd().split('\n').at(-1)).toBe('Customer 5 prefers e-mail.');
  expect(output.match(/^user: Greet .*$/gm)?.sort()).toEqual(['user: Greet Ada.', 'user: Greet Alan.']);
  expect(output.match(/^\+Customer 5 prefers the phone\.$/gm)).toHaveLength(2);
  for (const [field, value] of Object.entries({
    total: 5,
    completed: 5,
    failed: 0,
    steps: 10,
    tool_calls: 5,
  })) {
    expect(output).toMatch(new RegExp(`\\b${field}: ${value}\\b`));
  }
  expect([...output.matchAll(/"role":"(user|assistant|tool)"/g)].map(([, role]) => role)).toEqual([
    'user',
    'assistant',
    'tool',
    'assistant',
  ]);
});

async function run(script: string): Promise<{ output: string; errors: string; code: number | null }> {
  const path = [dirname(process.execPath), process.env.PATH ?? ''].join(delimiter);
  const shell = spawn('bash', ['-c', script], {
    env: { PATH: path, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  shell.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  shell.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => shell.once('close', resolve));
  return { output, errors, code };
}
