/** The bench, once its packages are installed: `node bench/main.ts [flags]`. Linux only, for it reads /proc. */
import { writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { takeDirectory } from './directory.ts';
import { isEnding, stopEverything } from './ending.ts';
import { within } from './measure/within.ts';
import { HELP, readOptions, type Mode } from './options.ts';
import { goalsOf, goalTable, tableOf } from './report/comparison.ts';
import { documentOf } from './report/document.ts';
import { toText } from './report/table.ts';
import type { Bench, ScenarioResult } from './scenarios/bench.ts';
import { against } from './scenarios/against.ts';
import { compare } from './scenarios/compare.ts';
import { compose } from './scenarios/compose.ts';
import { status } from './scenarios/status.ts';
import { tools } from './scenarios/tools.ts';
import { trace } from './scenarios/trace.ts';

/** Milliseconds that servers and processes may take to end when the bench is told to. */
const STOP_MS = 30_000;
const ROOT = join(import.meta.dirname, '..');
const say = (text: string): void => void process.stderr.write(`${text}\n`);
const print = (text: string): void => void process.stdout.write(`${text}\n`);

const SCENARIOS: Record<Exclude<Mode, 'compare'>, (bench: Bench) => Promise<ScenarioResult>> = {
  against,
  trace,
  tools,
  status,
  compose,
};

/** Scenarios that the document shows beside the comparison. */
const DOCUMENTED = ['tools', 'status', 'compose'] as const;

async function main(args: readonly string[]): Promise<void> {
  const options = readOptions(args);
  if (options === 'help') {
    print(HELP);
    return;
  }
  if (process.platform !== 'linux')
    throw new Error('The bench reads CPU and memory from /proc: run it on Linux.');
  const dir = join(ROOT, '.data', 'bench');
  // Its two benches take their own.
  const release = options.mode === 'against' ? () => undefined : takeDirectory(dir);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void endAt(signal, release));
  try {
    const bench: Bench = { options, dir, say };
    if (options.mode === 'compare') await showComparison(bench, args);
    else {
      const result = await SCENARIOS[options.mode](bench);
      show(result);
      print(JSON.stringify({ bench: options.mode, ...result.figures, goals: result.goals }));
    }
  } finally {
    // After a signal, `endAt` gives it back when the servers have ended.
    if (!isEnding()) release();
  }
}

/** Ends the bench before it is done. A signal may come twice: from the terminal, and from the parent process. */
async function endAt(signal: 'SIGINT' | 'SIGTERM', release: () => void): Promise<void> {
  if (isEnding()) return;
  say(`${signal}: servers and processes are stopped.`);
  await within(STOP_MS, 'Stopping', stopEverything()).catch(() => undefined);
  release();
  process.exit(128 + constants.signals[signal]);
}

function show({ title, table, goals, notes }: ScenarioResult): void {
  print(`\n${title}\n\n${toText(table)}\n`);
  if (goals.length > 0) print(`${toText(goalTable(goals))}\n`);
  for (const note of notes) print(note);
}

async function showComparison(bench: Bench, args: readonly string[]): Promise<void> {
  const compared = await compare(bench);
  const { machine, lines } = compared;
  for (const { server, runs } of sizesOf(lines)) {
    print(`\n${runs.toLocaleString('en-US')} runs, ${server} settings\n`);
    print(toText(tableOf(lines.filter((line) => line.server === server && line.runs === runs))));
  }
  const others: ScenarioResult[] = [];
  const unmeasured = lines.flatMap(({ line, runs, server, failure }) =>
    failure === null ? [] : [`${line} with ${runs} runs, ${server} settings, failed.`],
  );
  const documents = bench.options.writeDocs && unmeasured.length === 0;
  // At the sizes that they have by themselves. What was compared is shown whatever becomes of them.
  for (const name of documents ? DOCUMENTED : []) {
    try {
      const result = await SCENARIOS[name]({ ...bench, options: { ...bench.options, runs: null } });
      others.push(result);
      show({ ...result, goals: [] });
    } catch (error) {
      unmeasured.push(`--${name} could not be measured: ${String(error)}`);
    }
  }
  const goals = [...goalsOf(lines, machine.cores), ...others.flatMap((other) => other.goals)];
  const notes = [...compared.notes, ...unmeasured];
  print(`\n${toText(goalTable(goals))}\n`);
  for (const note of notes) print(note);
  if (unmeasured.length > 0) {
    process.exitCode = 1;
    if (bench.options.writeDocs) say('docs/BENCHMARKS.md is left as it was: not all of it was measured.');
  } else if (documents) {
    const command = ['npm run bench', ...(args.length === 0 ? [] : ['--', ...args])].join(' ');
    const date = new Date().toISOString().slice(0, 10);
    const text = documentOf({ machine, lines, others, goals, notes, options: bench.options, date, command });
    writeFileSync(join(ROOT, 'docs', 'BENCHMARKS.md'), text);
    say('docs/BENCHMARKS.md is written.');
  }
  const figures = others.map((other) => ({ title: other.title, ...other.figures }));
  print(JSON.stringify({ bench: 'compare', machine, lines, others: figures, goals, notes }));
}

function sizesOf(
  lines: readonly { readonly server: string; readonly runs: number }[],
): readonly { readonly server: string; readonly runs: number }[] {
  const seen = new Map(lines.map(({ server, runs }) => [`${server} ${runs}`, { server, runs }]));
  return [...seen.values()];
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!isEnding()) say(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
