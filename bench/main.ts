/** Runs the bench: `node bench/main.ts [flags]`. Reads /proc, so it runs on Linux only. */
import { constants } from 'node:os';
import { join } from 'node:path';
import { takeDirectory } from './directory.ts';
import { isEnding, stopEverything } from './ending.ts';
import { within } from './measure/within.ts';
import { HELP, readOptions, type Mode } from './options.ts';
import { goalsOf, goalTable, tableOf } from './report/comparison.ts';
import { toText } from './report/table.ts';
import type { Bench, ScenarioResult } from './scenarios/bench.ts';
import { addedTime } from './scenarios/added-time.ts';
import { against } from './scenarios/against.ts';
import { compare } from './scenarios/compare.ts';
import { fleet } from './scenarios/fleet.ts';
import { calls } from './scenarios/calls.ts';
import { compose } from './scenarios/compose.ts';
import { forget } from './scenarios/forget.ts';
import { cost } from './scenarios/cost.ts';
import { dashboard } from './scenarios/dashboard.ts';
import { results } from './scenarios/results.ts';
import { status } from './scenarios/status.ts';
import { upload } from './scenarios/upload.ts';
import { waits } from './scenarios/waits.ts';

/** Milliseconds for stopping servers and processes after a signal. */
const STOP_MS = 30_000;
const ROOT = join(import.meta.dirname, '..');
const say = (text: string): void => void process.stderr.write(`${text}\n`);
const print = (text: string): void => void process.stdout.write(`${text}\n`);

const SCENARIOS: Record<Exclude<Mode, 'compare'>, (bench: Bench) => Promise<ScenarioResult>> = {
  against,
  status,
  compose,
  fleet,
  results,
  upload,
  cost,
  forget,
  'added-time': addedTime,
  calls,
  waits,
  dashboard,
};

async function main(args: readonly string[]): Promise<void> {
  const options = readOptions(args);
  if (options === 'help') {
    print(HELP);
    return;
  }
  if (process.platform !== 'linux')
    throw new Error('The bench reads CPU and memory from /proc: run it on Linux.');
  const dir = join(ROOT, '.data', 'bench');
  // The two benches that it starts hold the directory themselves.
  const release = options.mode === 'against' ? () => undefined : takeDirectory(dir);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void endAt(signal, release));
  try {
    const bench: Bench = { options, dir, say };
    if (options.mode === 'compare') await showComparison(bench);
    else {
      const result = await SCENARIOS[options.mode](bench);
      show(result);
      print(JSON.stringify({ bench: options.mode, ...result.figures, goals: result.goals }));
    }
  } finally {
    // After a signal, `endAt` releases the directory once the servers have ended.
    if (!isEnding()) release();
  }
}

/** Stops the bench early. The terminal and the parent process may both send the signal. */
async function endAt(signal: 'SIGINT' | 'SIGTERM', release: () => void): Promise<void> {
  if (isEnding()) return;
  say(`${signal}: stopping servers and processes.`);
  await within(STOP_MS, 'Stopping', stopEverything()).catch(() => undefined);
  release();
  process.exit(128 + constants.signals[signal]);
}

function show({ title, table, goals, notes }: ScenarioResult): void {
  print(`\n${title}\n\n${toText(table)}\n`);
  if (goals.length > 0) print(`${toText(goalTable(goals))}\n`);
  for (const note of notes) print(note);
}

async function showComparison(bench: Bench): Promise<void> {
  const compared = await compare(bench);
  const { machine, lines } = compared;
  for (const { server, runs } of sizesOf(lines)) {
    print(`\n${runs.toLocaleString('en-US')} runs, ${server} settings\n`);
    print(toText(tableOf(lines.filter((line) => line.server === server && line.runs === runs))));
  }
  const failed = lines.filter(({ failure }) => failure !== null);
  const goals = goalsOf(lines, machine.cores);
  const notes = [
    ...compared.notes,
    ...failed.map(({ line, runs, server }) => `${line} with ${runs} runs, ${server} settings, failed.`),
  ];
  print(`\n${toText(goalTable(goals))}\n`);
  for (const note of notes) print(note);
  if (failed.length > 0) process.exitCode = 1;
  print(JSON.stringify({ bench: 'compare', machine, lines, goals, notes }));
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
