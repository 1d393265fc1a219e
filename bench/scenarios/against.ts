/** Compares this tree with a checkout of another commit, in turns. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { stoppedAtEnd } from '../ending.ts';
import { spreadOf, type Spread } from '../measure/statistics.ts';
import type { LineFigures } from '../report/summary.ts';
import { digits } from '../report/table.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const RUNS_DEFAULT = 10_000;
const ROOT = join(import.meta.dirname, '../..');

type Figures = NonNullable<LineFigures['figures']>;

/** Runs both trees' benches once per round; every second round begins with the other tree. */
export async function against(bench: Bench): Promise<ScenarioResult> {
  const { options } = bench;
  const runs = options.runs?.[0] ?? RUNS_DEFAULT;
  const commit = commitOf(options.ref);
  const name = `${options.ref} (${commit.slice(0, 7)})`;
  const other = checkOut(commit);
  try {
    const trees = [
      { name: 'this tree', dir: ROOT, rounds: [] as Figures[] },
      { name, dir: other.dir, rounds: [] as Figures[] },
    ];
    for (let round = 1; round <= options.reps; round++) {
      for (const tree of round % 2 === 1 ? trees : trees.toReversed()) {
        bench.say(`round ${round}: ${tree.name}`);
        tree.rounds.push(await measureTree(bench, tree.dir, runs));
      }
    }
    const cpu = trees.map(({ rounds }) => spreadOf(rounds.map((figures) => figures.cpu_ms_per_step.median)));
    const ratio = (cpu[0]?.median ?? Number.NaN) / (cpu[1]?.median ?? Number.NaN);
    return {
      title: `${options.lines[0]?.name ?? ''}, ${runs} runs, this tree and ${name} in turns`,
      table: {
        head: [
          'tree',
          'CPU ms/step',
          'min..max',
          'engine',
          'PostgreSQL',
          'steps/s',
          'foreign',
          'ratio of CPU',
        ],
        rows: trees.map(({ name: tree, rounds }, index) =>
          rowOf(tree, rounds, cpu[index], index === 0 ? `${digits(ratio)}x` : '1.00x'),
        ),
      },
      figures: { runs, reps: options.reps, commit, cpu_ms_per_step: cpu, ratio },
      goals: [],
      notes: [],
    };
  } finally {
    other.remove();
  }
}

function rowOf(
  tree: string,
  rounds: readonly Figures[],
  cpu: Spread | undefined,
  ratio: string,
): readonly string[] {
  const middle = (of: (figures: Figures) => number): string => digits(spreadOf(rounds.map(of)).median);
  return [
    tree,
    digits(cpu?.median ?? Number.NaN),
    `${digits(cpu?.min ?? Number.NaN)}..${digits(cpu?.max ?? Number.NaN)}`,
    middle((figures) => figures.engine_cpu_ms_per_step),
    middle((figures) => figures.postgres_cpu_ms_per_step),
    middle((figures) => figures.steps_per_s.median),
    middle((figures) => figures.foreign_cores.median),
    ratio,
  ];
}

/** Runs one round of a tree's own bench. Its bootstrap installs packages where its lockfile differs. */
async function measureTree({ options }: Bench, dir: string, runs: number): Promise<Figures> {
  const env = Object.entries(options.workerEnv).map((pair) => pair.join('='));
  const child = spawn(
    process.execPath,
    [
      ...['scripts/bootstrap.mjs', 'scripts/bench.ts', '--reps', '1', '--runs', String(runs)],
      ...[
        '--engines',
        options.lines.map((line) => line.name).join(','),
        '--server',
        options.servers.join(','),
      ],
      ...['--queue', options.queue, '--timeout', String(options.timeoutMs / 1000)],
      ...(env.length === 0 ? [] : ['--env', env.join(',')]),
    ],
    { cwd: dir, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const closed = once(child, 'close');
  const stop = stoppedAtEnd(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await closed;
  });
  try {
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
    await closed;
    if (child.exitCode !== 0) throw new Error(`The bench in ${dir} failed:\n${said}`);
    const { lines } = JSON.parse(said.trimEnd().split('\n').at(-1) ?? '') as {
      readonly lines: readonly LineFigures[];
    };
    const figures = lines[0]?.figures;
    if (figures == null) throw new Error(`The bench in ${dir} has no figures:\n${said}`);
    return figures;
  } finally {
    await stop();
  }
}

/** Makes a worktree of the commit with hard links to this tree's packages; relative links stay inside it. */
function checkOut(commit: string): { readonly dir: string; readonly remove: () => void } {
  const dir = join(ROOT, '.data', 'bench-against');
  const remove = (): void => {
    // A killed bench may have left the worktree entry or the directory alone.
    spawnSync('git', ['worktree', 'remove', '--force', dir], { cwd: ROOT, stdio: 'ignore' });
    rmSync(dir, { recursive: true, force: true });
  };
  remove();
  git('worktree', 'add', '--force', '--quiet', '--detach', dir, commit);
  const packages = globSync(['node_modules', 'bench/node_modules', '{apps,libs}/*/node_modules'], {
    cwd: ROOT,
  });
  for (const folder of packages) {
    // A workspace that the commit does not have needs no packages.
    const parent = dirname(join(dir, folder));
    if (existsSync(parent)) execFileSync('cp', ['-al', join(ROOT, folder), parent]);
  }
  return { dir, remove };
}

function commitOf(ref: string): string {
  const { status, stdout } = spawnSync(
    'git',
    ['rev-parse', '--verify', '--end-of-options', `${ref}^{commit}`],
    {
      cwd: ROOT,
      encoding: 'utf8',
    },
  );
  if (status !== 0) throw new Error(`--against: git finds no commit '${ref}' here.`);
  return stdout.trim();
}

function git(...args: readonly string[]): void {
  execFileSync('git', args, { cwd: ROOT });
}
