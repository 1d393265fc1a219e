// Runs every static check, then every test: `npm test`. With `-- <file or -t pattern>`: only the matching
// tests.
// Shows the failures of all checks. The last line is `N passed, N failed, N skipped`, where a failed check
// counts as one.

import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { closingLine, type TestCounts } from '../test/reporter.ts';

interface Check {
  readonly name: string;
  readonly command: readonly [program: string, ...args: string[]];
}

const root = dirname(import.meta.dirname);

/** The only file that needs the bench's own packages, which are installed by its first run. */
const PEER = 'bench/engines/pgboss-batch.ts';
const hasPeers = existsSync(join(root, 'bench/node_modules/.bench-stamp'));

/** Each check uses all cores. */
const CHECKS_OF_PROJECTS: readonly Check[] = [
  { name: 'types of every project', command: ['nx', 'run-many', '-t', 'typecheck', '--parallel=2'] },
  { name: 'lint of every project', command: ['nx', 'run-many', '-t', 'lint', '--parallel=2'] },
];

/** Each check uses one core; the longest come first. */
const CHECKS_OF_THE_REST: readonly Check[] = [
  {
    name: 'lint of scripts, tests and the bench',
    command: [
      'eslint',
      '.',
      ...['apps/**', 'libs/**', ...(hasPeers ? [] : [PEER])].flatMap((path) => ['--ignore-pattern', path]),
    ],
  },
  { name: 'formatting', command: ['prettier', '--check', '--log-level=warn', '.'] },
  {
    name: 'spelling of documents and comments',
    command: ['cspell', 'lint', '--no-progress', '--no-summary'],
  },
  { name: 'types of scripts and tests', command: ['tsc', '-p', '.'] },
  {
    name: 'import order',
    command: [
      'depcruise',
      '--config',
      '.dependency-cruiser.cjs',
      'apps',
      'libs',
      'scripts',
      'test',
      'proof',
      'bench',
    ],
  },
  {
    name: `types of the bench${hasPeers ? '' : ', without its packages'}`,
    command: ['tsc', '-p', hasPeers ? 'bench' : 'bench/without-packages'],
  },
];

/** What the tests in a browser open. */
const BUILD: Check = { name: 'build of the dashboard', command: ['node', 'scripts/build-dashboard.ts'] };

/** First signal that asked this process to end. */
let told: NodeJS.Signals | undefined;
const running = new Set<ChildProcess>();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    told ??= signal;
    // The terminal sends Ctrl-C to the child too, and twice would mean "at once".
    if (signal !== 'SIGINT' || !process.stdin.isTTY) for (const child of running) child.kill(signal);
  });

async function main(filters: string[]): Promise<number> {
  let failedChecks = 0;
  if (filters.length > 0)
    console.log('Only the tests named are run; `npm test` alone runs the static checks too.');
  else {
    failedChecks += await countFailed(CHECKS_OF_PROJECTS, 1);
    failedChecks += await countFailed(CHECKS_OF_THE_REST, 2);
  }

  failedChecks += await countFailed([BUILD], 1);
  const tests = await runTests(filters);
  endIfTold();
  const total = { ...tests, failed: tests.failed + failedChecks };
  console.log(closingLine(total));
  return total.failed === 0 ? 0 : 1;
}

/** Runs checks, `sideBySide` at a time. Returns the number of failures. */
async function countFailed(checks: readonly Check[], sideBySide: number): Promise<number> {
  let failed = 0;
  const left = [...checks];
  const runOn = async (): Promise<void> => {
    for (let check = left.shift(); check !== undefined && told === undefined; check = left.shift())
      if (!(await passes(check))) failed += 1;
  };
  await Promise.all(Array.from({ length: sideBySide }, runOn));
  endIfTold();
  return failed;
}

/** Runs a check and shows its output when it fails. */
async function passes({ name, command }: Check): Promise<boolean> {
  const started = performance.now();
  const { exitCode, output } = await run(command, 'collect');
  if (told !== undefined) return false;
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`${exitCode === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
  if (exitCode !== 0) console.log(`${output.trimEnd()}\n`);
  return exitCode === 0;
}

/** Runs vitest with its live output. The counts come through a file. */
async function runTests(filters: string[]): Promise<TestCounts> {
  const directory = mkdtempSync(join(tmpdir(), 'nightshift-counts-'));
  const countsFile = join(directory, 'counts.json');
  try {
    const { exitCode } = await run(['vitest', 'run', ...filters], 'show', {
      NIGHTSHIFT_TEST_COUNTS: countsFile,
    });
    const counts = readCounts(countsFile);
    // A failing set-up ends the run before any test is counted.
    if (exitCode !== 0 && counts.failed === 0) return { ...counts, failed: 1 };
    return counts;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function readCounts(file: string): TestCounts {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as TestCounts;
  } catch {
    return { passed: 0, failed: 1, skipped: 0 };
  }
}

interface Ended {
  readonly exitCode: number;
  readonly output: string;
}

function run(
  [program, ...args]: Check['command'],
  show: 'show' | 'collect',
  environment: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const child = spawn(program, args, {
    cwd: root,
    stdio: show === 'show' ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    shell: process.platform === 'win32',
    env: {
      ...process.env,
      PATH: [dirname(process.execPath), join(root, 'node_modules', '.bin'), process.env.PATH ?? ''].join(
        delimiter,
      ),
      NX_DAEMON: 'false',
      NX_TUI: 'false',
      ...environment,
    },
  });
  running.add(child);
  const chunks: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => chunks.push(chunk));
  return new Promise((settle) => {
    const end = (exitCode: number, output: string): void => {
      running.delete(child);
      settle({ exitCode, output });
    };
    child.once('error', (error) => end(127, `${program}: ${error.message}`));
    child.once('close', (code) => end(code ?? 1, Buffer.concat(chunks).toString()));
  });
}

/** Exits when a signal came while the last commands ran. */
function endIfTold(): void {
  if (told !== undefined) process.exit(128 + constants.signals[told]);
}

process.exitCode = await main(process.argv.slice(2));
