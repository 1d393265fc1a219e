/** Measures one engine from outside: in its own process, on a fresh database. */
import { fork } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { FromChild, ToChild } from '../child.ts';
import type { EngineContext, EngineFigures, RowCounts } from '../engines/engine.ts';
import { isEnding, stoppedAtEnd } from '../ending.ts';
import type { BenchRedis, BenchServer } from '../servers.ts';
import { MESSAGES_PER_RUN, STEPS } from '../workload.ts';
import { machineCpuMs, memoryOf, resetPeak, treeCpuMs, treeOf } from './processes.ts';
import { within } from './within.ts';

/** Milliseconds for an engine to close its connections and end. */
const CLOSE_MS = 60_000;

/** Cost of one phase of a run. */
export interface Phase {
  readonly wall_ms: number;
  readonly engine_cpu_ms: number;
  readonly postgres_cpu_ms: number;
  readonly redis_cpu_ms: number;
  readonly wal_bytes: number;
  /** Cores that other processes kept busy. */
  readonly foreign_cores: number;
}

export interface Measured {
  readonly accept: Phase;
  readonly run: Phase;
  readonly idle_rss_mb: number;
  readonly idle_sum_mb: number;
  /** Largest peak of one process. */
  readonly peak_rss_mb: number;
  /** Sum of the peaks of all processes. */
  readonly peak_sum_mb: number;
  readonly figures: EngineFigures;
  /** Growth of the database, indexes included. */
  readonly disk_bytes: number;
  /** One audit after the work, counted in no other figure. Null for engines without an audit. */
  readonly audit: { readonly postgres_cpu_ms: number; readonly steps_kept: number } | null;
}

export type RunResult =
  { readonly ok: true; readonly measured: Measured } | { readonly ok: false; readonly error: string };

export interface RunPlan {
  readonly engine: string;
  readonly context: Omit<EngineContext, 'url' | 'dir' | 'redisUrl'>;
  readonly server: BenchServer;
  readonly redis: BenchRedis | null;
  readonly dir: string;
  readonly timeoutMs: number;
}

interface Reading {
  readonly at: number;
  readonly engine: number;
  readonly postgres: number;
  readonly redis: number;
  readonly machine: number;
  readonly own: number;
  readonly lsn: string;
}

let databases = 0;

/** Runs an engine and measures it. Errors are results; it throws only when the bench is ending. */
export async function measureRun(plan: RunPlan): Promise<RunResult> {
  const { server, redis } = plan;
  databases += 1;
  const database = `bench_${databases}`;
  const dir = join(plan.dir, database);
  mkdirSync(dir, { recursive: true });
  try {
    const url = await server.createDatabase(database);
    const context: EngineContext = {
      ...plan.context,
      url,
      dir,
      redisUrl: redis?.url ?? null,
    };
    return { ok: true, measured: await measureChild(plan, context) };
  } catch (error) {
    if (isEnding()) throw error;
    return { ok: false, error: error instanceof Error ? error.message : String(error) };
  } finally {
    await server.dropDatabase(database).catch(() => undefined);
    rmSync(dir, { recursive: true, force: true });
  }
}

async function measureChild(plan: RunPlan, context: EngineContext): Promise<Measured> {
  const { server, redis } = plan;
  await redis?.flush();
  const child = fork(new URL('../child.ts', import.meta.url), [plan.engine, JSON.stringify(context)], {
    // pg-boss calls pg in a deprecated way.
    execArgv: ['--disable-warning=DeprecationWarning'],
  });
  const pid = child.pid ?? 0;
  const inbox: FromChild[] = [];
  let wake: () => void = () => undefined;
  child.on('message', (message: FromChild) => {
    inbox.push(message);
    wake();
  });
  const deadline = setTimeout(() => {
    inbox.push({ kind: 'failed', message: `not done after ${plan.timeoutMs / 1000} s` });
    wake();
  }, plan.timeoutMs);
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      inbox.push({ kind: 'failed', message: `its process ended with ${signal ?? `code ${code ?? 0}`}` });
      wake();
      resolve();
    });
  });
  // The engine's children end when their channel closes.
  const stop = stoppedAtEnd(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
  });
  // Without a listener, a message to a dead child would end the bench.
  child.on('error', ({ message }) => {
    inbox.push({ kind: 'failed', message });
    wake();
  });
  const next = async (): Promise<FromChild> => {
    for (;;) {
      const message = inbox.shift();
      if (message?.kind === 'failed') throw new Error(message.message);
      if (message !== undefined) return message;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  const nextOf = async <K extends FromChild['kind']>(
    kind: K,
  ): Promise<Extract<FromChild, { readonly kind: K }>> => {
    const message = await next();
    if (message.kind !== kind) throw new Error(`The engine sent '${message.kind}' instead of '${kind}'.`);
    return message as Extract<FromChild, { readonly kind: K }>;
  };
  const tell = (kind: ToChild['kind']): void => void child.send({ kind });
  const read = async (): Promise<Reading> => {
    const { rows } = await server.admin.query<{ lsn: string }>(
      'select pg_current_wal_insert_lsn()::text as lsn',
    );
    const own = process.cpuUsage();
    return {
      at: performance.now(),
      engine: treeCpuMs(pid),
      postgres: treeCpuMs(server.pid),
      redis: redis === null ? 0 : treeCpuMs(redis.pid),
      machine: machineCpuMs(),
      own: (own.user + own.system) / 1000,
      lsn: rows[0]?.lsn ?? '0/0',
    };
  };
  try {
    await next();
    const members = workingProcesses(plan.engine, pid);
    const idle = members.map((member) => memoryOf(member).rss_kb);
    for (const member of members) resetPeak(member);
    await server.admin.query('checkpoint');
    const sizeBefore = await databaseBytes(server, context.url);
    const first = await read();
    tell('accept');
    await next();
    const second = await read();
    tell('run');
    await next();
    const third = await read();
    const peaks = workingProcesses(plan.engine, pid).map((member) => memoryOf(member).peak_kb);
    tell('account');
    const account = await nextOf('account');
    verify(account.rows, context.runs);
    const sizeAfter = await databaseBytes(server, context.url);
    const { steps_kept } = await nextOf('audit-ready');
    const beforeAudit = treeCpuMs(server.pid);
    tell('audit');
    await nextOf('audited');
    const auditMs = treeCpuMs(server.pid) - beforeAudit;
    await within(CLOSE_MS, 'The end of its process', ended);
    return {
      accept: await phaseOf(server, first, second),
      run: await phaseOf(server, second, third),
      idle_rss_mb: Math.max(...idle) / 1024,
      idle_sum_mb: idle.reduce((sum, size) => sum + size, 0) / 1024,
      peak_rss_mb: Math.max(...peaks) / 1024,
      peak_sum_mb: peaks.reduce((sum, peak) => sum + peak, 0) / 1024,
      figures: account.figures,
      disk_bytes: sizeAfter - sizeBefore,
      audit: steps_kept === null ? null : { postgres_cpu_ms: auditMs, steps_kept },
    };
  } finally {
    clearTimeout(deadline);
    await stop();
  }
}

/** Returns the processes whose memory counts. The product's driver is left out: it stands in for the API. */
function workingProcesses(engine: string, pid: number): readonly number[] {
  const tree = treeOf(pid);
  return engine === 'nightshift' ? tree.filter((member) => member !== pid) : tree;
}

async function databaseBytes(server: BenchServer, url: string): Promise<number> {
  const database = new URL(url).pathname.slice(1);
  const { rows } = await server.admin.query<{ bytes: string }>('select pg_database_size($1) as bytes', [
    database,
  ]);
  return Number(rows[0]?.bytes ?? 0);
}

async function phaseOf(server: BenchServer, from: Reading, to: Reading): Promise<Phase> {
  const { rows } = await server.admin.query<{ bytes: string }>('select pg_wal_lsn_diff($1, $2) as bytes', [
    to.lsn,
    from.lsn,
  ]);
  const wall_ms = to.at - from.at;
  const engine = to.engine - from.engine;
  const postgres = to.postgres - from.postgres;
  const redis = to.redis - from.redis;
  const ours = engine + postgres + redis + (to.own - from.own);
  const foreign = to.machine - from.machine - ours;
  return {
    wall_ms,
    engine_cpu_ms: engine,
    postgres_cpu_ms: postgres,
    redis_cpu_ms: redis,
    wal_bytes: Number(rows[0]?.bytes ?? 0),
    foreign_cores: Math.max(0, foreign) / wall_ms,
  };
}

/** Throws unless the rows add up to the planned work. */
function verify(rows: RowCounts, runs: number): void {
  const wanted: RowCounts = {
    done: runs,
    steps: runs * STEPS,
    messages: rows.messages === null ? null : runs * MESSAGES_PER_RUN,
  };
  for (const name of ['done', 'steps', 'messages'] as const) {
    if (rows[name] !== wanted[name])
      throw new Error(`${name}: ${rows[name]} rows instead of ${wanted[name]}`);
  }
}
