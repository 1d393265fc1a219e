// `npm run simulate -- --seeds 1000`: that many seeds of the simulated house; each must end without a violation.
// `npm run simulate -- --seed 17`: one seed, with the end of its trace; the whole of it goes to `.data/`.

import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runCampaign, type SeedReport } from '../proof/campaign.ts';
import { openProofDatabase } from '../proof/database.ts';
import { keepRegression } from '../proof/regressions.ts';
import { startProofServer } from '../proof/server.ts';
import { simulate } from '../proof/simulation.ts';

const TRACE_LINES = 40;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '200' },
    seed: { type: 'string' },
    from: { type: 'string', default: '1' },
    processes: { type: 'string', default: String(Math.min(availableParallelism(), 8)) },
  },
});

const server = await startProofServer();
try {
  process.exitCode = values.seed === undefined ? await runMany() : await runOne(toCount('seed', values.seed));
} finally {
  await server.stop();
}

async function runMany(): Promise<number> {
  const count = toCount('seeds', values.seeds);
  const from = toCount('from', values.from);
  const seeds = Array.from({ length: count }, (_, index) => from + index);
  const failed: SeedReport[] = [];
  const sums = { events: 0, virtualMs: 0, kill: 0, pause: 0, fail: 0, posts: 0, billed: 0 };
  const startedAt = performance.now();
  let done = 0;
  await runCampaign(server.url, seeds, toCount('processes', values.processes), (report) => {
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
      `${sums.events} effects, ${sums.kill} kills, ${sums.pause} zombies, ${sums.fail} lost statements, replies and commits,\n` +
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

/** @throws for anything but a whole number from 1 on. */
function toCount(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new Error(`--${name} must be a whole number from 1 on, not '${text}'.`);
  return value;
}
