/** Measures every engine on the same work, in turns. */
import { join } from 'node:path';
import type { Line } from '../lines.ts';
import { measureRun, type RunResult } from '../measure/measured-run.ts';
import { describeMachine, type Machine } from '../measure/machine.ts';
import { RUNS_COMPARED } from '../options.ts';
import { summarise, type LineFigures } from '../report/summary.ts';
import { startRedis, startServer, type BenchRedis, type BenchServer, type ServerName } from '../servers.ts';
import type { Bench } from './bench.ts';

export interface Comparison {
  readonly machine: Machine;
  readonly lines: readonly LineFigures[];
  /** Lines that were left out, with the reason. */
  readonly notes: readonly string[];
}

/** Measures `reps` rounds through all lines, for each server and size. */
export async function compare(bench: Bench): Promise<Comparison> {
  const { options, dir } = bench;
  const redis = await startRedis(join(dir, 'redis'));
  const notes = new Set(redis === null ? ['There is no redis-server on PATH: bullmq is left out.'] : []);
  const lines: LineFigures[] = [];
  let machine: Machine | undefined;
  try {
    for (const name of options.servers) {
      const server = await startServer(join(dir, 'pg'), name);
      try {
        machine ??= describeMachine(dir, server.version);
        for (const runs of options.runs ?? RUNS_COMPARED) {
          const able = options.lines.filter(
            (line) => runs <= line.runs_max && (line.engine !== 'bullmq' || redis !== null),
          );
          for (const line of options.lines) {
            if (runs > line.runs_max)
              notes.add(
                `${line.name} is measured with up to ${line.runs_max.toLocaleString('en-US')} runs: larger sizes take long and show nothing new.`,
              );
          }
          lines.push(...(await measureSize(bench, able, { name, server, redis, runs })));
        }
      } finally {
        await server.stop();
      }
    }
  } finally {
    await redis?.stop();
  }
  if (machine === undefined) throw new Error('No server was measured.');
  return { machine, lines, notes: [...notes] };
}

interface Size {
  readonly name: ServerName;
  readonly server: BenchServer;
  readonly redis: BenchRedis | null;
  readonly runs: number;
}

async function measureSize(
  bench: Bench,
  lines: readonly Line[],
  size: Size,
): Promise<readonly LineFigures[]> {
  const results = new Map<Line, RunResult[]>(lines.map((line) => [line, []]));
  for (let rep = 1; rep <= bench.options.reps; rep++) {
    for (const line of lines) {
      const before = results.get(line) ?? [];
      // A line that failed once has no figures.
      if (before.some((result) => !result.ok)) continue;
      const result = await measureLine(bench, line, size);
      before.push(result);
      bench.say(
        `${size.name}, ${size.runs} runs, round ${rep}: ${line.name} ${outcomeOf(result, size.runs)}`,
      );
    }
  }
  return [...results].map(([line, own]) =>
    summarise({ line: line.name, runs: size.runs, server: size.name }, own),
  );
}

function measureLine(bench: Bench, line: Line, size: Size): Promise<RunResult> {
  const { options, dir } = bench;
  return measureRun({
    engine: line.engine,
    server: size.server,
    redis: size.redis,
    dir,
    timeoutMs: options.timeoutMs,
    context: {
      runs: size.runs,
      scenario: line.scenario,
      workers: line.workers,
      queue: options.queue,
      workerEnv: options.workerEnv,
    },
  });
}

function outcomeOf(result: RunResult, runs: number): string {
  if (!result.ok) return `failed: ${result.error}`;
  const { accept, run } = result.measured;
  const steps = runs * 3;
  const us = (ms: number): string => ((ms * 1000) / steps).toFixed(0);
  const engine = accept.engine_cpu_ms + run.engine_cpu_ms;
  const postgres = accept.postgres_cpu_ms + run.postgres_cpu_ms;
  return `${us(engine)} + ${us(postgres)} us CPU a step, ${((steps / run.wall_ms) * 1000).toFixed(0)} steps/s`;
}
