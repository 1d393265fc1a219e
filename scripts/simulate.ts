// Simulates many seeds, each of which must end without a violation: `npm run simulate -- --seeds 1000`.
// With `-- --seed 17`: one seed, with the end of its trace; the whole trace goes to `.data/`.

import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { runCampaign, type SeedReport } from '../proof/campaign.ts';
import { openProofDatabase } from '../proof/database.ts';
import { keepRegression } from '../proof/regressions.ts';
import { simulateSchedules } from '../proof/schedules.ts';
import { startProofServer } from '../proof/server.ts';
import { simulate } from '../proof/simulation.ts';
import { readCommandLine } from './command-line.ts';

const TRACE_LINES = 40;

const { flags } = readCommandLine({
  name: 'simulate',
  what: 'Simulates nights of killed and paused workers, lost replies and a failing provider, in virtual time; no check may fail.',
  takes: 'minutes, or about a minute for 200 seeds with --schedules 0',
  flags: {
    schedules: {
      value: 'zones',
      default: 'all',
      what: 'time zones of the schedules that are fired first, or all; 0: none',
    },
    seeds: { value: 'count', default: '200', whole: true, what: 'number of seeds' },
    seed: { value: 'number', whole: true, what: 'run one seed and print the end of its trace' },
    from: { value: 'number', default: '1', whole: true, what: 'first seed' },
    processes: {
      value: 'count',
      default: String(Math.min(availableParallelism(), 8)),
      whole: true,
      what: 'parallel processes',
    },
  },
});

const server = await startProofServer();
try {
  if (flags.seed === undefined) {
    const failed = (await runSchedules()) + (await runMany());
    process.exitCode = Math.min(failed, 1);
  } else process.exitCode = await runOne(Number(flags.seed));
} finally {
  await server.stop();
}

/** Fires schedules around the changes of time zones. Returns the number of violations. */
async function runSchedules(): Promise<number> {
  if (flags.schedules === '0') return 0;
  const startedAt = performance.now();
  const database = await openProofDatabase(server.url);
  const zones = flags.schedules === 'all' ? {} : { zones: Number(flags.schedules) };
  const report = await simulateSchedules(database, { seed: Number(flags.from), ...zones });
  await database.close();
  const seconds = (performance.now() - startedAt) / 1000;
  for (const { name, detail } of report.violations.slice(0, 20)) console.log(`  ${name}: ${detail}`);
  console.log(
    `${report.ticks} ticks of schedules in ${report.zones} zones in ${seconds.toFixed(0)} s, ${report.kills} workers killed, ` +
      `${report.violations.length} violations`,
  );
  return report.violations.length;
}

async function runMany(): Promise<number> {
  const count = Number(flags.seeds);
  const from = Number(flags.from);
  const seeds = Array.from({ length: count }, (_, index) => from + index);
  const failed: SeedReport[] = [];
  const sums = { events: 0, virtualMs: 0, kill: 0, pause: 0, fail: 0, posts: 0, billed: 0 };
  const startedAt = performance.now();
  let done = 0;
  await runCampaign(server.url, seeds, Number(flags.processes), (report) => {
    done += 1;
    sums.events += report.events;
    sums.virtualMs += report.virtualMs;
    sums.kill += report.faults.kill;
    sums.pause += report.faults.pause;
    sums.fail += report.faults.fail;
    sums.posts += report.ledger.posts;
    sums.billed += report.ledger.billed;
    if (report.violations.length > 0) {
      failed.push(report);
      show(report);
    }
    if (done % 100 === 0) console.log(`${done} of ${count} seeds, ${failed.length} failed`);
  });
  const seconds = (performance.now() - startedAt) / 1000;
  console.log(
    `${done} seeds in ${seconds.toFixed(0)} s (${(done / seconds).toFixed(1)} seeds/s), ${failed.length} with violations\n` +
      `${sums.events} effects, ${sums.kill} kills, ${sums.pause} pauses, ${sums.fail} lost statements, replies and commits,\n` +
      `${sums.posts} creates, ${sums.billed} answers billed, ${(sums.virtualMs / 3_600_000).toFixed(0)} simulated hours`,
  );
  return failed.length === 0 ? 0 : 1;
}

function show(report: SeedReport): void {
  const [first] = report.violations;
  console.log(`\nSeed ${report.seed} fails:`);
  for (const { name, detail } of report.violations.slice(0, 5)) console.log(`  ${name}: ${detail}`);
  console.log(report.trace.slice(-TRACE_LINES).join('\n'));
  const repeats = report.isRepeatable === true ? 'the same steps each time' : 'NOT the same steps each time';
  console.log(`Repeat it (${repeats}) with: npm run simulate -- --seed ${report.seed}\n`);
  keepRegression({ seed: report.seed, what: `${first?.name ?? ''}: ${first?.detail ?? ''}` });
}

async function runOne(seed: number): Promise<number> {
  const database = await openProofDatabase(server.url);
  const result = await simulate(database, { seed, exactly: true });
  await database.close();
  const folder = join(import.meta.dirname, '..', '.data');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `trace-${seed}.txt`);
  writeFileSync(file, `${result.trace.join('\n')}\n`);
  console.log(result.trace.slice(-TRACE_LINES).join('\n'));
  for (const { name, detail } of result.violations) console.log(`${name}: ${detail}`);
  console.log(
    `Seed ${seed}: ${result.violations.length} violations, ${result.events} effects, trace ${result.traceHash} in ${file}`,
  );
  return result.violations.length === 0 ? 0 : 1;
}
