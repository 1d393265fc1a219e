import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { expect, inject, onTestFinished, type TestContext } from 'vitest';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { findFreePort } from '../../libs/services/src/index.ts';
import { startStack, type Stack } from '../../scripts/stack/stack.ts';
import { read, root } from './repository.ts';

/** The result of a program. */
export interface Ended {
  readonly output: string;
  readonly errors: string;
  readonly code: number | null;
}

/** Returns the fenced blocks of a document in one language. */
export function fencesOf(document: string, language: string): readonly string[] {
  const fences = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm');
  return [...read(document).matchAll(fences)].map(([, body = '']) => body);
}

/** Skips a test on a machine without the programs of a session. */
export function needPrograms(context: TestContext): void {
  const missing = ['bash', 'curl'].filter((program) => spawnSync(program, ['--version']).status !== 0);
  if (missing.length > 0) context.skip(`there is no ${missing.join(' and no ')} here`);
}

/** Starts a service with a fast simulated provider, for one test. */
export async function startFastStack(): Promise<Stack> {
  const database = await openTestDatabase(inject('postgresUrl'));
  onTestFinished(() => database.close());
  const stack = await startStack({
    dataDir: openDirectory(),
    workers: 1,
    port: await findFreePort(),
    toolsDir: '',
    databaseUrl: database.url,
    queueUrl: 'none',
    simulatorLatency: 'uniform:50-100',
    workerEnv: { POLL_INTERVAL_MS: '100', GATHER_WINDOW_MS: '50', SWEEP_INTERVAL_MS: '100' },
  });
  onTestFinished(() => stack.stop());
  return stack;
}

/** Creates a directory for one test. */
export function openDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-session-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Runs the bash commands of a document against a service, in order. Expects no error. Returns their output. */
export async function runSession(
  document: string,
  { apiUrl, apiKey }: Pick<Stack, 'apiUrl' | 'apiKey'>,
  cwd = root,
): Promise<string> {
  const session = fencesOf(document, 'bash').join('');
  expect(session).toMatch(/^URL=http:\/\/127\.0\.0\.1:8283 KEY=\$\(cat \.data\/api-key\)$/m);
  // The address and key differ from a reader's.
  const script = session.replace(/^URL=\S+ KEY=\S+ \S+$/m, `URL=${apiUrl} KEY=${apiKey}`);
  const { output, errors, code } = await run(['bash', '-c', script], {}, cwd);
  expect({ errors, code }).toEqual({ errors: '', code: 0 });
  return output;
}

/** Runs a program to its end. */
export async function run(
  [program = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = root,
): Promise<Ended> {
  const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env;
  const path = [dirname(process.execPath), PATH].join(delimiter);
  const child = spawn(program, args, {
    cwd,
    env: { PATH: path, NODE_COMPILE_CACHE, NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { output, errors, code };
}
