/** The product's nights: the real worker against a simulator, whose clock jumps to the end of its provider batches. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Simulator } from '../../apps/simulator/src/index.ts';
import {
  claimAudit,
  connect,
  DEFAULT_PROJECT_ID,
  findTools,
  inTransaction,
  migrateToLatest,
  newId,
  registerMemoryTools,
  type Database,
} from '../../libs/db/src/index.ts';
import { acceptBatch } from '../../libs/db/src/testing/index.ts';
import { createPool } from '../../libs/services/src/index.ts';
import { emptyNotes, storeAgents } from '../../scripts/stack/agents.ts';
import { startProcess, type StackProcess } from '../../scripts/stack/processes.ts';
import { WORKER_NODE_ARGUMENTS } from '../../scripts/stack/settings.ts';
import { removeDirectory } from '../directory.ts';
import { stoppedAtEnd } from '../ending.ts';
import { NO_AUDIT } from '../engines/product.ts';
import type { Bench } from '../scenarios/bench.ts';
import { startServer } from '../servers.ts';
import { SHORT_WAITS } from '../workload.ts';
import {
  FILE_LABEL,
  inputOf,
  MAX_TOKENS,
  memoryOf,
  NOTES_LABEL,
  MODEL,
  systemOf,
  type Cell,
} from './conversation.ts';

/** The part of a custom id that is the same for all steps of a run. */
export const RUN_OF_CUSTOM_ID = '^[a-z0-9]+-([0-9a-f]{26})';
const runKey = (runId: string): string => runId.replaceAll('-', '').slice(0, 26);

/** Time that a provider batch takes. */
export const PROVIDER_BATCH_MS = 5 * 60_000;
/** Milliseconds without another provider batch after which a round counts as submitted. */
const QUIET_MS = 1_500;
const LOOK_MS = 50;
const TOOLS = ['read_page', 'core_memory_append'];
const TOOLS_DIR = join(import.meta.dirname, 'tools');
const STATEMENT_MS = 120_000;

export interface Product {
  /** Carries out `runs` runs of each cell in one batch. Returns the dollars of one run of each cell. */
  night(cells: readonly Cell[], runs: number): Promise<readonly number[]>;
  stop(): Promise<void>;
}

/** Starts a database and a worker, whose provider is the simulator. */
export async function startProduct(bench: Bench, simulator: Simulator): Promise<Product> {
  const { options } = bench;
  const [name = 'stock'] = options.servers;
  const dir = join(bench.dir, 'product');
  removeDirectory(dir);
  mkdirSync(dir, { recursive: true });
  const server = await startServer(join(bench.dir, 'pg'), name);
  const ends: (() => Promise<unknown>)[] = [() => server.stop()];
  const stop = stoppedAtEnd(async () => {
    for (const end of ends.splice(0).reverse()) await end().catch(() => undefined);
    removeDirectory(dir);
  });
  try {
    const url = await server.createDatabase('product');
    const pool = createPool({
      ...{ url, max: 2, applicationName: 'bench-cost' },
      ...{ statementTimeoutMs: STATEMENT_MS, idleInTransactionTimeoutMs: STATEMENT_MS },
    });
    ends.push(() => pool.end());
    const db = connect(pool);
    await migrateToLatest(db);
    await inTransaction(db, (trx) => registerMemoryTools(trx, DEFAULT_PROJECT_ID));
    await claimAudit(db, DEFAULT_PROJECT_ID, newId(), Number(NO_AUDIT.AUDIT_INTERVAL_MS));
    const worker = startWorker(url, dir, simulator, bench);
    ends.push(() => worker.stop());
    await untilToolsStand(db, worker, options.timeoutMs);
    return { night: (cells, runs) => night(db, simulator, worker, cells, runs, options.timeoutMs), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startWorker(url: string, dir: string, { apiUrl }: Simulator, { options }: Bench): StackProcess {
  return startProcess(
    'worker',
    'apps/worker/src/main.ts',
    {
      DATABASE_URL: url,
      QUEUE_URL: options.queue === 'none' ? 'none' : url,
      DATA_DIR: join(dir, 'worker'),
      TOOLS_DIR,
      EXIT_WITH_PARENT: '1',
      WORKER_NAME: 'bench-cost',
      BODY_BYTES_MAX: '240000000',
      ...NO_AUDIT,
      ...SHORT_WAITS,
      ...options.workerEnv,
      // Last: no option may lead to another provider.
      ANTHROPIC_API_KEY: 'simulated',
      ANTHROPIC_BASE_URL: apiUrl,
      SIMULATOR_URL: apiUrl,
    },
    join(dir, '..', 'cost-worker.log'),
    WORKER_NODE_ARGUMENTS,
  );
}

/** Waits until `done` or the timeout. Throws when the worker ends. */
async function until(worker: StackProcess, timeoutMs: number, done: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + timeoutMs;
  while (!(await done())) {
    if (!worker.alive()) throw await worker.failure;
    if (performance.now() > endMs)
      throw new Error(`The product took over ${timeoutMs} ms: see ${worker.logFile}.`);
    await sleep(LOOK_MS);
  }
}

async function untilToolsStand(db: Database, worker: StackProcess, timeoutMs: number): Promise<void> {
  await until(worker, timeoutMs, async () => {
    const found = await findTools(db, DEFAULT_PROJECT_ID, { ids: [], names: TOOLS });
    return found.length === TOOLS.length;
  });
}

async function night(
  db: Database,
  simulator: Simulator,
  worker: StackProcess,
  cells: readonly Cell[],
  runs: number,
  timeoutMs: number,
): Promise<readonly number[]> {
  const batchId = newId();
  const planned = await storeCells(db, cells, runs, batchId);
  await inTransaction(db, (trx) =>
    acceptBatch(trx, DEFAULT_PROJECT_ID, {
      ...{ id: batchId, callback_url: null, metadata: null, idempotency: null },
      runs: planned.map(({ cell, agent_id, name }, ordinal) => ({
        ...{ agent_id, custom_id: `run-${ordinal}`, max_steps: cell.steps, isolated: false },
        messages: [
          { role: 'user', content: [{ type: 'text', text: inputOf(cell, name) }], otid: null, name: null },
        ],
      })),
    }),
  );
  const advance = createRounds(simulator);
  await until(worker, timeoutMs, async () => {
    await advance();
    const batch = db.selectFrom('batch').select('state').where('id', '=', batchId);
    return (await batch.executeTakeFirstOrThrow()).state === 'completed';
  });
  const usd = await runsUsd(db, simulator, batchId, planned);
  return cells.map((cell) => {
    const own = usd.filter((_, ordinal) => planned[ordinal]?.cell === cell);
    return own.reduce((sum, ofRun) => sum + ofRun, 0) / runs;
  });
}

interface PlannedRun {
  readonly cell: Cell;
  readonly agent_id: string;
  readonly name: string;
}

async function storeCells(
  db: Database,
  cells: readonly Cell[],
  runs: number,
  batchId: string,
): Promise<readonly PlannedRun[]> {
  const planned: PlannedRun[] = [];
  const nameOf = (place: number): string => `customer ${place} of ${batchId}`;
  for (const cell of cells) {
    const ids = await storeAgents(db, runs, TOOLS, (place) => ({
      name: nameOf(place),
      system: systemOf(cell),
      model: `anthropic/${MODEL}`,
      model_settings: { max_output_tokens: MAX_TOKENS, parallel_tool_calls: true, extra: {} },
      context_window_limit: 1_000_000,
      blocks: [
        emptyNotes({ label: FILE_LABEL, value: memoryOf(cell, nameOf(place)), char_limit: 1_000_000 }),
        emptyNotes({ label: NOTES_LABEL }),
      ],
    }));
    planned.push(...ids.map((agent_id, place) => ({ cell, agent_id, name: nameOf(place) })));
  }
  return planned;
}

/** Returns the dollars of each run from the provider's ledger. Throws when a run did not take its planned steps. */
async function runsUsd(
  db: Database,
  { control }: Simulator,
  batchId: string,
  planned: readonly PlannedRun[],
): Promise<readonly number[]> {
  const steps = await db
    .selectFrom('step')
    .innerJoin('run', 'run.id', 'step.run_id')
    .select((eb) => ['run.id', 'run.ordinal', 'run.state', eb.fn.countAll<number>().as('steps')])
    .where('run.batch_id', '=', batchId)
    .where('step.applied_at', 'is not', null)
    .groupBy(['run.id', 'run.ordinal', 'run.state'])
    .orderBy('run.ordinal')
    .execute();
  return planned.map(({ cell }, ordinal) => {
    const run = steps[ordinal];
    if (run?.state !== 'completed' || run.steps !== cell.steps)
      throw new Error(
        `Run ${ordinal} is ${run?.state ?? 'missing'} after ${run?.steps ?? 0} of ${cell.steps} steps.`,
      );
    const billed = control.billed({ logical_key: runKey(run.id) });
    if (billed === undefined) throw new Error(`The ledger has no bill of run ${ordinal}.`);
    return billed.usd;
  });
}

/** Returns a function that lets the time of a provider batch pass once no further one has come for a while. */
function createRounds(simulator: Simulator): () => Promise<void> {
  let seen = -1;
  let sinceMs = 0;
  return async () => {
    const batches = simulator.control.batches();
    if (batches.length !== seen) {
      seen = batches.length;
      sinceMs = performance.now();
    }
    if (performance.now() - sinceMs < QUIET_MS || batches.every(({ status }) => status === 'ended')) return;
    await letPass(simulator, PROVIDER_BATCH_MS);
  };
}

/** Lets time pass at the provider. Its answers keep the time of this machine, because the product compares both clocks. */
export async function letPass({ control }: Simulator, ms: number): Promise<void> {
  await control.advance(ms);
  control.configure({ timestamps: { skew_ms: Date.now() - control.now() } });
}
