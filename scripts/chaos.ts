import { rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { submitLoad } from './chaos/load.ts';
import { faultRules, faultSettings, healedSettings, LATE_CREATE_MS } from './chaos/faults.ts';
import { startKiller } from './chaos/killer.ts';
import { createRandom } from '../proof/random.ts';
import { startRedisStorm, type RedisStorm } from './chaos/redis-storm.ts';
import { hasHeld, judge } from './chaos/verdict.ts';
import { orEnd, readCommandLine } from './command-line.ts';
import { emptyDataDirectory } from './stack/data-directory.ts';
import { WORKER_NODE_ARGUMENTS } from './stack/settings.ts';
import { workOnStack } from './stack/signals.ts';
import { startStack, type Stack } from './stack/stack.ts';

// Runs real processes under faults: workers killed and paused, connections cut, the queue flushed, the disk
// of the logs full, the provider failing. After healing, every run must have ended, and nothing was applied
// or paid twice.
const { flags, refuse } = readCommandLine({
  name: 'chaos',
  what: 'Runs real processes under faults; then every run must have ended, and nothing was applied or paid twice.',
  takes: 'its minutes, and up to four more for healing',
  flags: {
    runs: { value: 'count', default: '20000', whole: true, what: 'number of runs' },
    minutes: { value: 'number', default: '4', positive: true, what: 'minutes of faults' },
    queue: {
      value: 'kind',
      default: 'postgres',
      oneOf: ['redis', 'postgres', 'none'],
      what: 'queue of the signals',
    },
    workers: { value: 'count', default: '4', whole: true, what: 'worker processes' },
    seed: { value: 'text', what: 'seed of the strikes; a new one each time by default' },
  },
});
const seed = flags.seed ?? String(Date.now() % 1_000_000);
const random = createRandom(seed);
const runs = Number(flags.runs);
const stormMs = Number(flags.minutes) * 60_000;
const workers = Number(flags.workers);
if (workers < 2) refuse('--workers must be at least 2: the last working worker is never struck.');
const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** Milliseconds for all work to end once the faults are gone. */
const HEAL_MS = 240_000;
/** The default lease. Paused workers wake long after it. */
const LEASE_MS = 10_000;

const dataDir = resolve('.data/chaos');
orEnd(() => {
  emptyDataDirectory(dataDir);
});
// Holds the Redis and the journal of the tools.
rmSync(dataDir, { recursive: true, force: true });
const effectsFile = join(dataDir, 'effects');
const redis: RedisStorm | null =
  flags.queue === 'redis' ? await startRedisStorm(join(dataDir, 'redis'), 10_000) : null;
say(
  `seed ${seed}; ${runs} runs, ${workers} workers, queue ${flags.queue}, ${flags.minutes} minutes of faults`,
);
const start = (): Promise<Stack> =>
  startStack({
    dataDir,
    workers,
    port: 0,
    toolsDir: join(import.meta.dirname, 'chaos/tools'),
    simulatorLatency: 'uniform:200-2000',
    workerNodeArguments: [...WORKER_NODE_ARGUMENTS, '--import', './scripts/chaos/full-log-disk.ts'],
    ...(flags.queue === 'postgres' ? {} : { queueUrl: redis?.url ?? 'none' }),
    workerEnv: {
      LEASE_MS: String(LEASE_MS),
      CREATE_TIMEOUT_MS: '4000',
      QUARANTINE_MS: '12000',
      SEARCH_INTERVAL_MS: '1000',
      POLL_INTERVAL_MS: '500',
      GATHER_WINDOW_MS: '500',
      HUNT_INTERVAL_MS: '3000',
      RETRY_DELAY_MS: '500',
      OUTAGE_DELAY_MS: '2000',
      REQUESTS_MAX: '1000',
      CHUNK_LINES: '200',
    },
  });
let holds = false;
try {
  holds = await workOnStack(start, storm);
} finally {
  await redis?.stop();
}
process.exit(holds ? 0 : 1);

/** Runs the faults and heals. Returns whether every check holds. */
async function storm(stack: Stack, told: AbortSignal): Promise<boolean> {
  const controlUrl = stack.simulatorControlUrl ?? '';
  const control = (method: string, path: string, body?: unknown): Promise<Response> =>
    fetch(`${controlUrl}${path}`, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  await control('POST', '/config', { ...faultSettings, logical_key: '^[^-]+-(.+)-\\d+$' });
  for (const rule of faultRules) await control('POST', '/rules', rule);

  const startedAt = performance.now();
  const submitted = submitLoad(stack, runs, effectsFile);
  const killer = startKiller(stack, stack.pool, {
    workers,
    interval_ms: Math.max(400, stormMs / 300),
    freeze_ms: LEASE_MS * 1.5,
    random: () => random.next(),
    told,
  });
  await submitted;
  const ended = async (): Promise<number> => {
    const { rows } = await stack.pool.query<{ count: number }>(
      `select count(*)::int as count from run where ended_at is null`,
    );
    return rows[0]?.count ?? 0;
  };
  while (performance.now() - startedAt < stormMs) {
    await new Promise((tick) => setTimeout(tick, 5_000));
    say(
      `${Math.round((performance.now() - startedAt) / 1000)} s: ${await ended()} runs open, ${killer.strikes.kills} kills, ${killer.strikes.pauses} pauses`,
    );
  }
  await killer.stop();
  await control('DELETE', '/rules');
  await control('POST', '/config', healedSettings);
  const healedAt = performance.now();
  let open = await ended();
  while (open > 0 && performance.now() - healedAt < HEAL_MS) {
    await new Promise((tick) => setTimeout(tick, 1_000));
    open = await ended();
  }
  const healSeconds = (performance.now() - healedAt) / 1000;
  // Batches end and orphans are booked after the last run, and a late create may still arrive.
  const lateMs = Math.max(0, LATE_CREATE_MS - (performance.now() - healedAt));
  await new Promise((tick) => setTimeout(tick, 8_000 + lateMs));
  const verdict = await judge(stack.db, stack.pool, {
    controlUrl,
    effectsFile,
    postgresLog: join(dataDir, 'pg', 'postgres.log'),
  });
  const { strikes } = killer;
  const line = {
    ...verdict,
    kills: strikes.kills,
    pauses: strikes.pauses,
    connections_cut: strikes.connections_cut,
    failed_starts: strikes.failed_starts,
    unexpected_ends: strikes.unexpected_ends,
    ...(redis === null ? {} : { redis_flushes: redis.flushes(), redis_restarts: redis.restarts() }),
    recovery_p50_ms: percentile(strikes.recoveries_ms, 0.5),
    recovery_p99_ms: percentile(strikes.recoveries_ms, 0.99),
    recovery_max_ms: percentile(strikes.recoveries_ms, 1),
    recoveries: strikes.recoveries_ms.length,
    not_recovered: strikes.waiting.size,
    heal_s: Math.round(healSeconds),
    queue: flags.queue,
    seed,
  };
  process.stdout.write(`${JSON.stringify(line)}\n`);
  return hasHeld(verdict, strikes);
}

function percentile(values: readonly number[], share: number): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length === 0
    ? null
    : Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
}
