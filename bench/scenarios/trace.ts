/** Where the server's CPU goes: the product's statements, dearest first. */
import { join } from 'node:path';
import { digits } from '../report/table.ts';
import { startRedis, startServer, type BenchServer } from '../servers.ts';
import { STEPS } from '../workload.ts';
import { measureLine } from './compare.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const RUNS_DEFAULT = 10_000;
const STATEMENT_CHARS = 130;

export async function trace(bench: Bench): Promise<ScenarioResult> {
  const [name = 'stock'] = bench.options.servers;
  const [line] = bench.options.lines;
  if (line === undefined) throw new Error('There is no line to trace.');
  const runs = bench.options.runs?.[0] ?? RUNS_DEFAULT;
  const redis = await startRedis(join(bench.dir, 'redis'));
  let server: BenchServer | undefined;
  try {
    server = await startServer(join(bench.dir, 'pg'), name);
    const result = await measureLine(bench, line, { name, server, redis, runs }, true);
    if (!result.ok) throw new Error(result.error);
    const steps = runs * STEPS;
    const costs = [...(result.measured.figures.costs ?? [])].sort(
      ([, a], [, b]) => b.backend_cpu_ms - a.backend_cpu_ms,
    );
    return {
      title: `CPU of the server, statement by statement: ${line.name}, ${runs} runs, ${name}`,
      table: {
        head: ['us/step', 'calls', 'rows/step', 'us/row', 'sent chars/step', 'statement'],
        rows: costs.map(([statement, cost]) => [
          digits((cost.backend_cpu_ms * 1000) / steps),
          String(cost.calls),
          digits(cost.rows / steps),
          digits(cost.rows === 0 ? Number.NaN : (cost.backend_cpu_ms * 1000) / cost.rows),
          digits(cost.sent_chars / steps),
          statement.slice(0, STATEMENT_CHARS),
        ]),
      },
      figures: { runs, server: name, costs: costs.map(([statement, cost]) => ({ statement, ...cost })) },
      goals: [],
      notes: [
        'Each figure is the CPU of the backend between sending a statement and its last row, whatever else ran.',
      ],
    };
  } finally {
    await server?.stop();
    await redis?.stop();
  }
}
