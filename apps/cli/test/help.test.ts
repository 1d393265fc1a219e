import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { COMMANDS, runCommandLine, type Surroundings } from '../src/index.ts';

/** Runs a command line that needs no settings. */
async function run(args: readonly string[]): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const surroundings = {
    stdout,
    stderr,
    signal: new AbortController().signal,
    version: '1.2.3',
    configure: () => {
      throw new Error('no settings here');
    },
  } as unknown as Surroundings;
  const exitCode = await runCommandLine(args, surroundings);
  const text = (stream: PassThrough): string => (stream.read() as Buffer | null)?.toString() ?? '';
  return { exitCode, stdout: text(stdout), stderr: text(stderr) };
}

test.each(COMMANDS.map(({ name }) => name))(
  '%s --help shows its flags and those of all commands',
  async (name) => {
    const { exitCode, stdout, stderr } = await run([name, '--help']);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toContain(`nightshift ${name}`);
    expect(stdout).toContain('--json');
  },
);

test('--help lists every command, and the exit codes', async () => {
  const { exitCode, stdout } = await run(['--help']);
  expect(exitCode).toBe(0);
  for (const { name, summary } of COMMANDS)
    expect(stdout).toMatch(new RegExp(`^ {2}${name} .*${summary.slice(0, 9)}`, 'm'));
  expect(stdout).toContain('130 interrupted');
});

test('--version is the version', async () => {
  expect(await run(['--version'])).toMatchObject({ exitCode: 0, stdout: '1.2.3\n' });
});

test('no command, and an unknown flag, are exit code 2 with a hint', async () => {
  expect((await run([])).exitCode).toBe(2);
  const { exitCode, stderr } = await run(['ls', '--limits', '1']);
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(/unknown option '--limits'[^]*Did you mean --limit/);
});
