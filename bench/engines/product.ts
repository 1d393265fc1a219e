/** The product as an engine: its workers, store and tool host. The provider and the HTTP API are left out. */
import { join } from 'node:path';
import {
  auditInvariants,
  claimAudit,
  connect,
  DEFAULT_PROJECT_ID,
  inTransaction,
  migrateToLatest,
  newId,
  registerModuleTools,
  type Database,
} from '../../libs/db/src/index.ts';
import { acceptBatch } from '../../libs/db/src/testing/index.ts';
import { checkQueue } from '../../libs/queue/src/index.ts';
import { checkRedis, createPool } from '../../libs/services/src/index.ts';
import { storeAgents } from '../../scripts/stack/agents.ts';
import { description, parameters } from '../tools/look_up.ts';
import { MODEL, SHORT_WAITS, STEPS, SYSTEM_PROMPT, toolCall, userText, type Scenario } from '../workload.ts';
import type { EngineContext, EngineFigures, PreparedEngine, RowCounts } from './engine.ts';
import { addFigures, startWorkerProcess, type WorkerProcess } from './worker-processes.ts';

/** Accepting 100,000 runs is one transaction. */
const ACCEPT_TIMEOUT_MS = 600_000;
/** A worker's longest audit interval, so that no audit runs during a measurement. */
const NO_AUDIT_MS = 1_900_000_000;
/** Environment of a worker on a prepared store, whose first audit counts as made. */
export const NO_AUDIT = { AUDIT_INTERVAL_MS: String(NO_AUDIT_MS) };

/** Without a queue, the sweep finds all work. */
const SHORT_SWEEP = { SWEEP_INTERVAL_MS: '500' };

/** A product database with one agent per run and a batch that is ready to be accepted. */
export interface ProductStore {
  readonly db: Database;
  readonly batchId: string;
  readonly queueUrl: string;
  accept(): Promise<void>;
  close(): Promise<void>;
}

export async function prepareStore(context: EngineContext): Promise<ProductStore> {
  const pool = createPool({
    url: context.url,
    max: 2,
    applicationName: 'bench-store',
    statementTimeoutMs: ACCEPT_TIMEOUT_MS,
    idleInTransactionTimeoutMs: ACCEPT_TIMEOUT_MS,
  });
  const db = connect(pool);
  await migrateToLatest(db);
  const queueUrl = queueUrlOf(context);
  await checkQueue(queueUrl, { checkRedis });
  // The audit is measured separately: the first due audit counts as made.
  await claimAudit(db, DEFAULT_PROJECT_ID, newId(), NO_AUDIT_MS);
  const agentIds = await storeToolsAndAgents(db, context.runs, context.scenario);
  const batchId = newId();
  return {
    db,
    batchId,
    queueUrl,
    async accept() {
      await inTransaction(db, (trx) =>
        acceptBatch(trx, DEFAULT_PROJECT_ID, {
          id: batchId,
          callback_url: null,
          metadata: null,
          idempotency: null,
          runs: agentIds.map((agent_id, ordinal) => ({
            agent_id,
            custom_id: `run-${ordinal}`,
            max_steps: 10,
            messages: [
              { role: 'user', content: [{ type: 'text', text: userText(ordinal) }], otid: null, name: null },
            ],
            isolated: false,
          })),
        }),
      );
    },
    close: () => pool.end(),
  };
}

function startWorkers(context: EngineContext, store: ProductStore): Promise<WorkerProcess[]> {
  return Promise.all(
    Array.from({ length: context.workers }, (_, index) =>
      startWorkerProcess({
        name: `bench-${index + 1}`,
        databaseUrl: context.url,
        queueUrl: store.queueUrl,
        dataDir: join(context.dir, `worker-${index + 1}`),
        options: {
          scenario: context.scenario,
          providerDir: join(context.dir, 'provider'),
          holdOpenMs: 0,
        },
        env: {
          ...NO_AUDIT,
          ...SHORT_WAITS,
          ...(context.queue === 'none' ? SHORT_SWEEP : {}),
          ...context.workerEnv,
        },
      }),
    ),
  );
}

/** Prepares the product as an engine of the comparison. */
export async function prepareProduct(context: EngineContext): Promise<PreparedEngine> {
  const store = await prepareStore(context);
  const workers = await startWorkers(context, store);
  let ended: Promise<unknown> | undefined;
  const endWorkers = (): Promise<unknown> => (ended ??= Promise.all(workers.map((worker) => worker.stop())));
  return {
    accept: () => store.accept(),
    async run() {
      const finished = Promise.race(
        workers.map((worker) =>
          worker.report((flow, detail) => flow === 'finish-batch' && detail['state'] === 'completed'),
        ),
      );
      for (const worker of workers) worker.start();
      await finished;
    },
    async figures() {
      const all = await Promise.all(workers.map((worker) => worker.figures()));
      return all.reduce(addFigures, NOTHING);
    },
    count: () => countRows(store.db, store.batchId, context.runs),
    async prepareAudit() {
      await endWorkers();
      return { steps_kept: await countSteps(store.db), run: () => auditBooks(store.db) };
    },
    async close() {
      await endWorkers();
      await store.close();
    },
  };
}

const NOTHING: EngineFigures = {
  provider_cpu_ms: 0,
  counts: { statements: 0, transactions: 0 },
  loop: { p99_ms: 0, max_ms: 0 },
};

function queueUrlOf({ queue, url, redisUrl }: EngineContext): string {
  if (queue === 'none') return 'none';
  if (queue === 'postgres') return url;
  if (redisUrl === null) throw new Error('--queue redis needs a redis-server on PATH.');
  return redisUrl;
}

async function storeToolsAndAgents(
  db: Database,
  runs: number,
  scenario: Scenario,
): Promise<readonly string[]> {
  await inTransaction(db, async (trx) => {
    await registerModuleTools(
      trx,
      DEFAULT_PROJECT_ID,
      ['look_up', 'ask_service', 'ask_service_together'].map((name) => ({
        name,
        description,
        input_schema: {
          ...parameters,
          required: [...parameters.required],
        },
        side_effects: 'none',
        return_char_limit: 50_000,
        timeout_ms: 30_000,
      })),
    );
  });
  return storeAgents(db, runs, [toolCall(scenario, 1).name], (place) => ({
    name: `customer ${place}`,
    system: SYSTEM_PROMPT,
    model: `anthropic/${MODEL}`,
  }));
}

async function countSteps(db: Database): Promise<number> {
  const counted = db.selectFrom('step').select((eb) => eb.fn.countAll<number>().as('n'));
  return (await counted.executeTakeFirstOrThrow()).n;
}

/** Runs the workers' audit once. Throws with the names of the violated invariants. */
async function auditBooks(db: Database): Promise<void> {
  const broken = new Set((await auditInvariants(db)).map(({ id, name }) => `${id}, ${name}`));
  if (broken.size > 0) throw new Error(`The audit found violations: ${[...broken].join('; ')}.`);
}

/** Counts the rows of this batch; the database may hold others. */
async function countRows(db: Database, batchId: string, runs: number): Promise<RowCounts> {
  const ofBatch = db.selectFrom('run').select('id').where('batch_id', '=', batchId);
  const counted = async (query: { executeTakeFirstOrThrow(): Promise<{ n: number }> }): Promise<number> =>
    (await query.executeTakeFirstOrThrow()).n;
  const all = (table: 'step' | 'message') =>
    db
      .selectFrom(table as 'step')
      .select((eb) => eb.fn.countAll<number>().as('n'))
      .where('run_id', 'in', ofBatch);
  const done = db
    .selectFrom('run')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('batch_id', '=', batchId)
    .where('state', '=', 'completed');
  const counts = {
    done: await counted(done),
    steps: await counted(all('step').where('applied_at', 'is not', null)),
    messages: await counted(all('message')),
  };
  const calls = await counted(
    db
      .selectFrom('tool_call')
      .select((eb) => eb.fn.countAll<number>().as('n'))
      .where('run_id', 'in', ofBatch)
      .where('state', '=', 'succeeded'),
  );
  if (calls !== runs * (STEPS - 1))
    throw new Error(`${calls} tool calls succeeded instead of ${runs * (STEPS - 1)}`);
  return counts;
}
