/** Measures removing forgotten batches beside a night, and auditing a night on top of kept steps. */
import { readFileSync } from 'node:fs';
import { sql } from 'kysely';
import pg from 'pg';
import {
  auditInvariants,
  connect,
  DEFAULT_PROJECT_ID,
  forgetBatch,
  inTransaction,
  newId,
  type Database,
} from '../../libs/db/src/index.ts';
import { acceptBatch } from '../../libs/db/src/testing/index.ts';
import { AUDIT_STATEMENT_MS, createPool } from '../../libs/services/src/index.ts';
import type { WorkerProcess } from '../engines/worker-processes.ts';
import { within } from '../measure/within.ts';
import { digits } from '../report/table.ts';
import { SHORT_WAITS, STEPS, userText } from '../workload.ts';
import { setUpProduct, type ProductSetup } from './product-setup.ts';
import type { Bench, ScenarioResult } from './bench.ts';

const RUNS_DEFAULT = 20_000;
const KEPT_DEFAULT = 10_000_000;
const REMOVED = 1_000_000;
/** Nights without and with a removal, in turns. */
const ROUNDS = 2;
/** Nights by which the ids and times of each copy are older than those of the next. */
const NIGHT_MS = 86_400_000;

interface Night {
  readonly batchId: string;
  readonly seconds: number;
}

export async function forget(bench: Bench): Promise<ScenarioResult> {
  const runs = bench.options.runs?.[0] ?? RUNS_DEFAULT;
  const kept = bench.options.kept ?? KEPT_DEFAULT;
  bench.say(`forget: storing ${runs} agents`);
  const setup = await setUpProduct(bench, runs);
  try {
    const worker = await setup.startWorker(0, { ...SHORT_WAITS, SWEEP_INTERVAL_MS: '500' });
    worker.start();
    const first = await night(bench, setup, worker);
    const alone = await auditNight(setup, new Date(0));
    bench.say(
      `forget: audit of a night alone: ${digits(alone.cpu_ms / 1000)} s of CPU; copying it to ${kept} steps`,
    );
    const copies = await copyNight(bench, setup.context.url, first.batchId, Math.ceil(kept / (runs * STEPS)));
    await setup.store.db.transaction().execute((trx) => forgetBatch(trx, DEFAULT_PROJECT_ID, first.batchId));
    await untilRemoved(bench, setup.store.db);
    await sql`analyze`.execute(setup.store.db);
    return await measure(bench, setup, worker, { runs, alone, copies });
  } finally {
    await setup.stop();
  }
}

interface Prepared {
  readonly runs: number;
  readonly alone: Audit;
  /** Batches of kept steps, oldest first. */
  readonly copies: string[];
}

async function measure(
  bench: Bench,
  setup: ProductSetup,
  worker: WorkerProcess,
  { runs, alone, copies }: Prepared,
): Promise<ScenarioResult> {
  const { db } = setup.store;
  const rates: { without: number[]; beside: number[] } = { without: [], beside: [] };
  const audits: Audit[] = [];
  const steps = runs * STEPS;
  const removed = Math.min(REMOVED, (copies.length * steps) / 2);
  const removals: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const since = await forgetNights(bench, db);
    const plain = await night(bench, setup, worker);
    rates.without.push(steps / plain.seconds);
    audits.push(await auditNight(setup, since));
    bench.say(
      `forget: ${digits(steps / plain.seconds)} steps/s alone; audit ${digits((audits.at(-1)?.cpu_ms ?? 0) / 1000)} s of CPU`,
    );
    const marked = copies.splice(0, Math.ceil(removed / ROUNDS / steps));
    for (const id of marked) await inTransaction(db, (trx) => forgetBatch(trx, DEFAULT_PROJECT_ID, id));
    const from = performance.now();
    const beside = await night(bench, setup, worker);
    const left = await db
      .selectFrom('forgotten_batch')
      .select('id')
      .where('removed_at', 'is', null)
      .execute();
    if (left.length === 0) throw new Error('The removal ended before the night: take fewer --runs.');
    rates.beside.push(steps / beside.seconds);
    await untilRemoved(bench, db);
    removals.push((marked.length * steps * 1000) / (performance.now() - from));
    bench.say(
      `forget: ${digits(steps / beside.seconds)} steps/s beside a removal of ${digits(removals.at(-1) ?? 0)} steps/s`,
    );
  }
  const ratio = mean(rates.beside) / mean(rates.without);
  const cpu = mean(audits.map((audit) => audit.cpu_ms));
  return {
    title: `Forgetting ${removed} steps beside nights of ${runs} runs, ${copies.length * steps} steps kept`,
    table: {
      head: [
        'steps/s alone',
        'beside a removal',
        'ratio',
        'removed steps/s',
        'audit of a night alone, CPU s',
        'on top of kept steps',
        'ratio',
      ],
      rows: [
        [
          ...[digits(mean(rates.without)), digits(mean(rates.beside)), digits(ratio), digits(mean(removals))],
          ...[digits(alone.cpu_ms / 1000), digits(cpu / 1000), digits(cpu / alone.cpu_ms)],
        ],
      ],
    },
    figures: { runs, steps_kept: copies.length * steps, rates, removals, audit_alone: alone, audits },
    goals: [
      { goal: 'steps/s beside a removal at least 0.75 x alone', measured: digits(ratio), met: ratio >= 0.75 },
      {
        goal: 'audit of a night on top of kept steps at most 1.2 x of the night alone',
        measured: digits(cpu / alone.cpu_ms),
        met: cpu / alone.cpu_ms <= 1.2,
      },
    ],
    notes: [
      'Kept steps are copies of a night, made by SQL, with short contents. Audits read the night alone; slices come on top.',
    ],
  };
}

/** Runs a night of isolated runs to its end. */
async function night(bench: Bench, { store, context }: ProductSetup, worker: WorkerProcess): Promise<Night> {
  const batchId = newId();
  const agents = await store.db.selectFrom('agent').select('id').orderBy('id').execute();
  const ended = worker.report((flow, detail) => flow === 'finish-batch' && detail['state'] === 'completed');
  await inTransaction(store.db, (trx) =>
    acceptBatch(trx, DEFAULT_PROJECT_ID, {
      ...{ id: batchId, callback_url: null, metadata: null, idempotency: null },
      runs: agents.slice(0, context.runs).map(({ id }, ordinal) => ({
        agent_id: id,
        custom_id: `run-${ordinal}`,
        max_steps: 10,
        isolated: true,
        messages: [
          { role: 'user', content: [{ type: 'text', text: userText(ordinal) }], otid: null, name: null },
        ],
      })),
    }),
  );
  const from = performance.now();
  await within(bench.options.timeoutMs, 'A night', ended);
  return { batchId, seconds: (performance.now() - from) / 1000 };
}

interface Audit {
  readonly wall_ms: number;
  readonly cpu_ms: number;
}

/** An empty slice: the work of the night alone is measured. */
const NO_SLICE = { after: null, to: '00000000-0000-0000-0000-000000000000' };

/** Audits the batches that changed since, as a worker does, on a connection without parallel workers. */
async function auditNight({ context }: ProductSetup, since: Date): Promise<Audit> {
  const pool = createPool({
    url: context.url,
    max: 1,
    applicationName: 'bench-audit',
    statementTimeoutMs: AUDIT_STATEMENT_MS,
  });
  const db = connect(pool);
  try {
    const { rows } = await sql<{
      pid: number;
    }>`select pg_backend_pid() as pid, set_config('max_parallel_workers_per_gather', '0', false)`.execute(db);
    const pid = rows[0]?.pid ?? 0;
    const cpu = backendCpuMs(pid);
    const from = performance.now();
    const violations = await auditInvariants(db, { scope: { since, slice: NO_SLICE } });
    const measured = { wall_ms: performance.now() - from, cpu_ms: backendCpuMs(pid) - cpu };
    const [violation] = violations;
    if (violation !== undefined) throw new Error(`The audit found ${violation.id}: ${violation.name}.`);
    return measured;
  } finally {
    await pool.end();
  }
}

function backendCpuMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
}

/** Forgets the measured nights so far, so that an audit counts none of them as changed, and returns the time. */
async function forgetNights(bench: Bench, db: Database): Promise<Date> {
  const nights = await db
    .selectFrom('batch')
    .select('id')
    .where('completed_at', '>', sql<Date>`app_now() - interval '12 hours'`)
    .execute();
  for (const { id } of nights) await inTransaction(db, (trx) => forgetBatch(trx, DEFAULT_PROJECT_ID, id));
  await untilRemoved(bench, db);
  return new Date();
}

async function untilRemoved(bench: Bench, db: Database): Promise<void> {
  const until = performance.now() + bench.options.timeoutMs;
  while (
    (await db.selectFrom('forgotten_batch').select('id').where('removed_at', 'is', null).execute()).length > 0
  ) {
    if (performance.now() > until) throw new Error('The removal does not end: give it more --timeout.');
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** Tables of a night and the columns that hold ids or times to move. */
const TABLES: Readonly<
  Record<string, { readonly ids: readonly string[]; readonly times: readonly string[]; readonly of: string }>
> = {
  batch: { ids: ['id'], times: ['created_at', 'updated_at', 'completed_at'], of: 'id = $1' },
  batch_tally: { ids: ['batch_id'], times: [], of: 'batch_id = $1' },
  ended_runs: { ids: ['batch_id'], times: ['ended_at'], of: 'batch_id = $1' },
  batch_minute: { ids: ['batch_id'], times: ['minute'], of: 'batch_id = $1' },
  run: {
    ids: ['id', 'batch_id', 'conversation_id'],
    times: ['created_at', 'started_at', 'ended_at'],
    of: 'batch_id = $1',
  },
  conversation: {
    ids: ['id'],
    times: ['created_at'],
    of: 'id in (select conversation_id from run where batch_id = $1)',
  },
  message: {
    ids: ['conversation_id', 'run_id'],
    times: ['created_at'],
    of: 'run_id in (select id from run where batch_id = $1)',
  },
  step: {
    ids: ['run_id', 'provider_batch_id'],
    times: ['sealed_at', 'applied_at', 'ended_at'],
    of: 'run_id in (select id from run where batch_id = $1)',
  },
  tool_call: {
    ids: ['run_id'],
    times: ['started_at', 'ended_at'],
    of: 'run_id in (select id from run where batch_id = $1)',
  },
  provider_batch: {
    ids: ['id'],
    times: ['created_at', 'submit_started_at', 'submitted_at', 'ended_at', 'ingested_at'],
    of: 'id in (select provider_batch_id from step s join run r on r.id = s.run_id where r.batch_id = $1)',
  },
};

const NOTHING_MOVED: { readonly ids: readonly string[]; readonly times: readonly string[] } = {
  ids: [],
  times: [],
};

/** Moves the time in an id back. */
const EARLIER = `create function earlier(id uuid, ms bigint) returns uuid language sql immutable parallel safe as $$
  select (lpad(to_hex(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint - ms), 12, '0')
          || substr(replace(id::text, '-', ''), 13))::uuid $$`;

/** Copies a night into earlier nights by SQL, with ids and times of those nights, and returns the ids of the copies. */
async function copyNight(bench: Bench, url: string, batchId: string, count: number): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(EARLIER);
    for (const [table, { of }] of Object.entries(TABLES))
      await client.query(
        `create unlogged table night_${table} as select * from ${table} where ${of.replaceAll('$1', `'${batchId}'::uuid`)}`,
      );
    await client.query(
      `update night_message set content = '[{"type":"text","text":"kept"}]'
        where role = 'assistant' and content::text not like '%tool_use%'`,
    );
    const ids: string[] = [];
    for (let nth = count; nth > 0; nth--) {
      for (const table of Object.keys(TABLES)) await insertCopy(client, table, nth);
      const { rows } = await client.query<{ id: string }>('select earlier($1, $2) as id', [
        batchId,
        nth * NIGHT_MS,
      ]);
      ids.push(rows[0]?.id ?? '');
      if (nth % 20 === 0) bench.say(`forget: ${nth} nights to copy`);
    }
    return ids;
  } finally {
    await client.end();
  }
}

/** Inserts the rows of a table for the copy that is `nth` nights older. */
async function insertCopy(client: pg.Client, table: string, nth: number): Promise<void> {
  const { ids, times } = TABLES[table] ?? NOTHING_MOVED;
  const ms = nth * NIGHT_MS;
  const special: Readonly<Record<string, string>> = {
    'provider_batch.nonce': `'n' || lpad('${nth}', 5, '0') || right(nonce, 6)`,
    'provider_batch.provider_id': `provider_id || '_${nth}'`,
    'ended_runs.run_ids': `array(select earlier(u, ${ms}) from unnest(run_ids) with ordinality as r(u, n) order by n)`,
  };
  const { rows } = await client.query<{ name: string }>(
    `select attname::text as name from pg_attribute
      where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
    [table],
  );
  const names = rows.map(({ name }) => name);
  const values = names.map((name) => {
    if (ids.includes(name)) return `earlier(${name}, ${ms})`;
    if (times.includes(name)) return `${name} - ${ms} * interval '1 ms'`;
    return special[`${table}.${name}`] ?? name;
  });
  await client.query(
    `insert into ${table} (${names.join(', ')}) select ${values.join(', ')} from night_${table}`,
  );
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
