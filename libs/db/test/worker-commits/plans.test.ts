import type { StepOutcome } from '@nightshift/agent-core';
import { createPool } from '@nightshift/services';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  claimCredential,
  claimDueBatches,
  commitBlocksReleased,
  commitDecisions,
  commitOverdueRuns,
  commitReservations,
  commitRunsCancelled,
  commitUnsealed,
  commitWaitingRunsStarted,
  createAgents,
  DEFAULT_PROJECT_ID,
  forgetEvents,
  holdLease,
  inTransaction,
  lockRuns,
  markIdleBatches,
  newId,
  queueFreedRuns,
  readActingRuns,
  readAskingRuns,
  readBatchStates,
  readDueWork,
  readGauges,
  readOpenSteps,
  readRequestBytes,
  readStalePrefixes,
  readRunsToDecide,
  readSealedRequests,
  readUnsendableSteps,
  releaseAllLeases,
  requestBatchCancel,
  sealReadyRuns,
  type CallOutput,
  type Database,
  type DB,
  type Lease,
  type NewAgent,
  type NewBatch,
  type Tx,
} from '../../src/index.ts';
import { acceptBatch, openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { forceGenericPlan } from '../../src/commits/force-generic-plan.ts';
import { queueReadyRuns } from '../../src/commits/run/queue-again.ts';
import { takeOutSteps } from '../../src/commits/run/take-out-steps.ts';
import { aBatch, aClientTool, anAgent, aRun, createTestAgents } from '../factories.ts';
import { countNearlyNone, explain, leaveUncounted, nodesOf, rowsReadOf, type PlanNode } from '../plans.ts';
import {
  accept,
  acceptBareFleet,
  acceptFleet,
  act,
  actIn,
  ALICE,
  answer,
  callsTools,
  claim,
  clear,
  decide,
  DONE,
  end,
  ingest,
  leaseOf,
  newNonce,
  seal,
  submit,
} from './night-shift.ts';
import { DUE_QUESTION } from '../due-question.ts';

/*
 * After a step has changed every row, the planner's statistics are wrong: no counted state is left. If it expects one row,
 * it may join a chunk by nested loop over a scan, which takes seconds instead of milliseconds. These tests explain the hot
 * statements in that moment, with default settings.
 */

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, [
    'run',
    'step',
    'message',
    'tool_call',
    'tool_call_output',
    'conversation',
    'batch',
    'run_chunk',
    'event',
    'agent',
    'agent_block',
    'block',
  ]);
});
afterAll(() => database.close());

const RUNS = 10_000;
const CHUNK = 500;
/** Tables that a chunk's statements must not scan: a chunk is a small part of them. */
const HOT_TABLES = ['run', 'step', 'message', 'conversation', 'agent'];

/** Lists the faults of a plan: scans of whole hot tables, and work proportional to chunk times table. */
function faultsOf(plan: PlanNode): readonly string[] {
  const faults: string[] = [];
  for (const node of nodesOf(plan)) {
    const type = node['Node Type'];
    const relation = node['Relation Name'];
    if (type === 'Seq Scan' && relation !== undefined && HOT_TABLES.includes(relation))
      faults.push(`${type} on ${relation}`);
    const [, inner] = type === 'Nested Loop' ? (node.Plans ?? []) : [];
    if (
      inner !== undefined &&
      /^(Seq|CTE) Scan$/.test(inner['Node Type']) &&
      (inner['Actual Loops'] ?? 0) > 1
    ) {
      faults.push(`Nested Loop over ${inner['Node Type']}, ${String(inner['Actual Loops'])} times`);
    }
    if (type === 'Seq Scan' && (node['Actual Loops'] ?? 0) > 1) {
      faults.push(`${type} on ${String(relation)}, ${String(node['Actual Loops'])} times`);
    }
    const handled = (node['Actual Rows'] ?? 0) * (node['Actual Loops'] ?? 1);
    if (handled > 40 * CHUNK) faults.push(`${type} handed on ${handled} rows`);
    const removed =
      (node['Rows Removed by Join Filter'] ?? 0) +
      (node['Rows Removed by Filter'] ?? 0) * (node['Actual Loops'] ?? 1);
    if (removed > 4 * CHUNK) faults.push(`${type} threw ${removed} rows away`);
    // A list unknown at planning is compared with every row; a known list becomes a hash table.
    const filter = node.Filter ?? node['Join Filter'] ?? '';
    if (/ (= ANY|<> ALL) \(\(?(\$|InitPlan)/.test(filter) && handled + removed > CHUNK / 10)
      faults.push(`${type} goes through a list for each of ${handled + removed} rows`);
  }
  return faults;
}

async function expectGoodPlans(work: (trx: Tx) => Promise<unknown>, statementsMin: number): Promise<void> {
  const plans = await explain(database.url, work);
  expect(plans.length).toBeGreaterThanOrEqual(statementsMin);
  for (const { statement, plan } of plans)
    expect({ statement, faults: faultsOf(plan) }).toEqual({ statement, faults: [] });
}

/** Commits a chunk of result lines with its locks: some runs end, some act, some retry. */
async function applyChunk(trx: Tx, lease: Lease, runIds: readonly string[]): Promise<void> {
  const outcomes = [
    DONE,
    callsTools(),
    answer([{ type: 'text', text: 'x'.repeat(1_000) }]),
    { kind: 'expired' } as const,
  ];
  await holdLease(trx, lease);
  const decided = await decide(
    trx,
    new Map(runIds.map((id, index) => [id, outcomes[index % outcomes.length]!])),
  );
  expect(decided).toHaveLength(runIds.length);
  await commitDecisions(trx, decided);
}

/** The lease of the provider batch with the present step of all runs. */
let lease: Lease | null = null;

/** Brings every run into flight for the first time; another run waits for each conversation. */
async function takeOff(): Promise<Lease> {
  const { agent_ids } = await acceptBareFleet(db, RUNS);
  const { id, count } = await seal(db);
  expect(count).toBe(RUNS);
  await accept(
    db,
    agent_ids.map((agentId) => aRun(agentId)),
  );
  return end(db, id);
}

/** Takes every run through its step, analyses the tables if `counted`, and brings it into flight for the next step. */
async function goOn(last: Lease, counted: boolean): Promise<Lease> {
  await ingest(db, last, callsTools());
  const chunks = await db.selectFrom('run_chunk').selectAll().where('kind', '=', 'tools').execute();
  for (const chunk of chunks) await act(db, chunk, 'seen', { stdout: 'looked' });
  if (counted) await sql`analyze run, step, message, tool_call, conversation`.execute(db);
  const { id, count } = await seal(db, RUNS + CHUNK);
  expect(count).toBe(RUNS);
  return end(db, id);
}

describe.each(['never counted', 'counted before the last step', 'counted while nearly none could be seen'])(
  'with 10,000 runs in flight, rows %s',
  (when) => {
    beforeAll(async () => {
      lease =
        lease === null
          ? await goOn(await takeOff(), false)
          : await goOn(lease, when === 'counted before the last step');
      if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
    });

    const someOpen = async (): Promise<readonly string[]> => {
      const open = await readOpenSteps(db, lease!.id, RUNS);
      // Result files are unordered.
      return open.filter((_key, index) => index % (RUNS / CHUNK) === 7).map((key) => key.run_id);
    };

    test('the commit of a chunk of answers looks rows up and scans no table', async () => {
      const runIds = await someOpen();
      expect(runIds).toHaveLength(CHUNK);
      await expectGoodPlans((trx) => applyChunk(trx, lease!, runIds), 10);
    });

    test('so does the commit of a chunk of tool results', async () => {
      const runIds = await someOpen();
      await ingest(db, lease!, callsTools(2), { run_ids: runIds });
      const chunk = await db
        .selectFrom('run_chunk')
        .selectAll()
        .where('kind', '=', 'tools')
        .executeTakeFirstOrThrow();
      await expectGoodPlans(async (trx) => {
        await readActingRuns(trx, runIds);
        await actIn(trx, chunk, 'seen', { stdout: 'looked' });
      }, 8);
      const ofOutputs = async (output: CallOutput): Promise<number> => {
        const plans = await explain(database.url, (trx) => actIn(trx, chunk, 'seen', output));
        return plans.filter(({ plan }) => plan['Relation Name'] === 'tool_call_output').length;
      };
      expect(await ofOutputs({ stdout: 'looked' })).toBe(1);
      expect(await ofOutputs({ stdout: '', attempts: 1 })).toBe(0);
    });

    test('so do the reads and locks of a chunk and the pages of a request body', async () => {
      const runIds = await someOpen();
      await expectGoodPlans(async (trx) => {
        await lockRuns(trx, runIds);
        const runs = await readRunsToDecide(trx, runIds);
        await readBatchStates(trx, [...new Set([...runs.values()].map((run) => run.batch_id))]);
        await readSealedRequests(trx, lease!.id, 5_000, 5_000 + CHUNK);
        await readStalePrefixes(
          trx,
          lease!.id,
          Array.from({ length: CHUNK }, (_, index) => 5_000 + index),
        );
        await readRequestBytes(
          trx,
          lease!.id,
          Array.from({ length: CHUNK / 4 }, (_, index) => 5_000 + index),
        );
        await readOpenSteps(trx, lease!.id, CHUNK);
      }, 7);
    });

    test('so does a sweep, however many runs exist', async () => {
      await expectGoodPlans(async (trx) => {
        await markIdleBatches(trx);
        await commitOverdueRuns(trx, 500, 0);
        await queueFreedRuns(trx, 500);
        await commitBlocksReleased(trx, 500);
      }, 4);
    });

    test('the checks before a send read no run without a halted batch or a passed deadline', async () => {
      const [look] = await explain(database.url, (trx) => readUnsendableSteps(trx, lease!.id));
      const runs = [...nodesOf(look!.plan)].filter((node) => node['Relation Name'] === 'run');
      expect(runs.map((node) => node['Actual Rows']! * node['Actual Loops']!)).toEqual(runs.map(() => 0));
    });

    test('a run past its deadline elsewhere makes them read no other run, and one of the batch is found', async () => {
      const [own = ''] = await someOpen();
      const overdue = (trx: Tx, isOwn: boolean) =>
        sql`
        update run set deadline_at = '2020-01-01', overdue_from = '2020-01-01'
         where id = ${isOwn ? sql`${own}::uuid` : sql`(select id from run where state = 'queued' limit 1)`}`.execute(
          trx,
        );
      for (const isOwn of [false, true]) {
        const plans = await explain(database.url, async (trx) => {
          await overdue(trx, isOwn);
          await sql`delete from step where provider_batch_id = ${lease!.id}::uuid and state <> 'sealed'`.execute(
            trx,
          );
          expect(await readUnsendableSteps(trx, lease!.id)).toBe(isOwn);
        });
        // The sealed steps of the batch are counted once; the steps of the one run are looked up.
        expect(Math.max(...rowsReadOf(plans.slice(-1), 'run'))).toBeLessThanOrEqual(1);
        expect(Math.min(...rowsReadOf(plans.slice(-1), 'step'))).toBeLessThanOrEqual(4);
      }
    });

    test('a plan with a scan is detected', async () => {
      const runIds = await someOpen();
      const [locked] = await explain(database.url, async (trx) => {
        // A planner that expects one row would choose a nested loop over a scan.
        await sql`set local enable_hashjoin = off`.execute(trx);
        await sql`set local enable_mergejoin = off`.execute(trx);
        await sql`set local enable_indexscan = off`.execute(trx);
        await sql`set local enable_bitmapscan = off`.execute(trx);
        await sql`select count(*) from run r join unnest(${runIds}::uuid[]) as d(id) on r.id = d.id and r.state = 'in_flight'`.execute(
          trx,
        );
      });
      expect(faultsOf(locked!.plan)).toContain('Seq Scan on run');
      expect(faultsOf(locked!.plan).join()).toMatch(/threw \d+ rows away/);
    });

    test('a list scan in an unseen plan is detected', async () => {
      const runIds = await someOpen();
      const [counted] = await explain(database.url, async (trx) => {
        await forceGenericPlan(trx);
        await sql`select count(*) from run where state = 'in_flight' and coalesce(batch_id <> all(${runIds}::uuid[]), false)`.execute(
          trx,
        );
      });
      expect(faultsOf(counted!.plan).join()).toMatch(/goes through a list for each of \d+ rows/);
    });
  },
);

test('updates of runs, steps, calls and conversations stay HOT to the end of the run: they touch no index', async () => {
  const pool = createPool({ url: database.url, max: 1, applicationName: 'test' });
  // A single connection, whose counts can be read at any moment.
  const own: Database = new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });
  // A version without room on its page went to another page, which says nothing about an index.
  const counts = async (): Promise<{ readonly all: number; readonly hot: number }> => {
    await sql`select pg_stat_force_next_flush()`.execute(own);
    const { rows } = await sql<{ all: number; hot: number }>`
      select sum(n_tup_upd)::int as all, sum(n_tup_hot_upd + n_tup_newpage_upd)::int as hot
        from pg_stat_user_tables where relname in ('run', 'step', 'tool_call', 'conversation')`.execute(own);
    return rows[0]!;
  };
  try {
    await clear(own);
    await sql`vacuum full run`.execute(own);
    await sql`vacuum full conversation`.execute(own);
    // So few that a page has room for the new versions.
    const agents = await createTestAgents(own, 8);
    const before = await counts();
    await accept(
      own,
      agents.flatMap(({ id }) => [aRun(id), { ...aRun(id), isolated: true }]),
    );
    const answerAll = async (outcome: StepOutcome): Promise<void> => {
      const { id } = await seal(own);
      await submit(own, id);
      await sql`update provider_batch set state = 'ended', ended_at = app_now() where id = ${id}::uuid`.execute(
        own,
      );
      await ingest(own, await claim(own, id, 'ended'), outcome);
    };
    for (let step = 1; step <= 4; step++) {
      await answerAll(callsTools());
      const chunk = await own
        .selectFrom('run_chunk')
        .selectAll()
        .where('kind', '=', 'tools')
        .executeTakeFirstOrThrow();
      await act(own, chunk);
    }
    await answerAll(DONE);
    // The server flushes its counts with a delay.
    // Per step: the run three times, the step twice, its call once; for the last step: the run twice, the step once. An
    // agent's conversation is taken and freed; an isolated conversation is created for its run and freed.
    const updates = 16 * (4 * (3 + 2 + 1) + 2 + 1) + 8 * (2 + 1);
    await expect.poll(async () => (await counts()).all - before.all, { timeout: 120_000 }).toBe(updates);
    expect((await counts()).hot - before.hot).toBe(updates);
  } finally {
    await own.destroy();
  }
});

test('sealing runs with as many definitions joins no computed rows by nested loop', async () => {
  await clear(db);
  await acceptBareFleet(db, 3_000);
  await sql`
    insert into definition
    select (json_populate_record(d, json_build_object('id', r.id))).* from run r join definition d on d.id = r.definition_id
  `.execute(db);
  await sql`update run set definition_id = id`.execute(db);
  const batch = { id: newId(), project_id: DEFAULT_PROJECT_ID, credential: 'default', nonce: newNonce() };
  const plans = await explain(database.url, (trx) => sealReadyRuns(trx, batch, 3_000));
  expect(plans.length).toBeGreaterThanOrEqual(4);
  for (const { statement, plan } of plans) {
    const faults = faultsOf(plan).filter((fault) => /Nested Loop|threw|list/.test(fault));
    expect({ statement, faults }).toEqual({ statement, faults: [] });
  }
});

test.each(['never counted', 'counted when there were few', 'counted'])(
  'accepting runs of agents with different tool lists and tools does not compare all pairs of lists, agents %s',
  async (counted) => {
    await clear(db);
    const tools = [
      'memory_insert',
      'memory_replace',
      'rethink_memory',
      'core_memory_append',
      'archival_memory_insert',
    ];
    if (counted === 'counted when there were few') {
      await createTestAgents(db, 1, { tools });
      await sql`analyze agent, agent_tool, tool, definition, conversation`.execute(db);
    }
    const agents = await createTestAgents(db, 3_000, { tools });
    await sql`update agent_tool set position = hashtext(agent_id::text || tool_id)`.execute(db);
    await sql`update agent set system = id::text`.execute(db);
    if (counted === 'counted')
      await sql`analyze agent, agent_tool, tool, definition, conversation`.execute(db);
    const runs = agents.map(({ id }, place) => ({
      ...aRun(id),
      client_tools: [aClientTool(`ask_${place}`)],
    }));
    const plans = await explain(database.url, (trx) => acceptBatch(trx, DEFAULT_PROJECT_ID, aBatch(runs)));
    expect(plans.length).toBeGreaterThanOrEqual(8);
    for (const { statement, plan } of plans) {
      const faults = faultsOf(plan).filter((fault) => fault.includes('Nested Loop'));
      expect({ statement, faults }).toEqual({ statement, faults: [] });
    }
    await sql`delete from agent_block`.execute(db);
    await sql`vacuum agent_block`.execute(db);
  },
);

test.each(['never counted', 'counted when there were few', 'counted'])(
  'sealing runs of agents with blocks looks up the blocks of each agent, rows %s',
  async (counted) => {
    await clear(db);
    if (counted === 'counted when there were few') {
      await createTestAgents(db, 1);
      await sql`analyze agent_block, block`.execute(db);
    }
    await acceptFleet(db, 3_000);
    if (counted === 'counted') await sql`analyze agent_block, block`.execute(db);
    const batch = { id: newId(), project_id: DEFAULT_PROJECT_ID, credential: 'default', nonce: newNonce() };
    const plans = await explain(database.url, (trx) => sealReadyRuns(trx, batch, 3_000));
    for (const { statement, plan } of plans) {
      const faults = faultsOf(plan).filter((fault) => /times|threw/.test(fault));
      expect({ statement, faults }).toEqual({ statement, faults: [] });
    }
    await sql`delete from agent_block`.execute(db);
    await sql`vacuum agent_block`.execute(db);
  },
);

test.each([
  ['never counted', false],
  ['counted while none could be seen', true],
])('taking steps back does not compare all runs with all steps, rows %s', async (_when, areMiscounted) => {
  await clear(db);
  await sql`vacuum full run`.execute(db);
  await sql`vacuum full step`.execute(db);
  await acceptBareFleet(db, 3_000);
  const { id } = await seal(db);
  if (areMiscounted) {
    await countNearlyNone(db);
    // Statistics from before the transaction wrote more than a page of them.
    await sql`update pg_class set relpages = 1, reltuples = 0 where relname in ('run', 'run_pkey')`.execute(
      db,
    );
    await sql`update pg_class set relpages = 10, reltuples = 1 where relname = 'step'`.execute(db);
  }
  const building = await claim(db, id, 'building');
  await expectGoodPlans((trx) => commitUnsealed(trx, building, 1_500), 5);
  await sql`analyze run, step, message, tool_call, conversation`.execute(db);
});

test('refused reservations are reported and taken out by hash, whatever the statistics', async () => {
  await clear(db);
  const { id: batchId } = await acceptBareFleet(db, 1_500);
  const { id } = await seal(db);
  const runIds = (await db.selectFrom('run').select('id').execute()).map((run) => run.id);
  const plans = await explain(database.url, async (trx) => {
    await forceGenericPlan(trx);
    await readAskingRuns(trx, id, [batchId, ...Array.from({ length: 1_000 }, newId)]);
    await takeOutSteps(trx, id, runIds);
  });
  expect(plans.length).toBeGreaterThanOrEqual(4);
  for (const { statement, plan } of plans) {
    const faults = faultsOf(plan).filter((fault) => /Nested Loop|threw|list/.test(fault));
    expect({ statement, faults }).toEqual({ statement, faults: [] });
  }
});

/** Removes all runs and steps from disk and statistics. */
async function forgetRuns(): Promise<void> {
  await clear(db);
  await sql`vacuum full run`.execute(db);
  await sql`vacuum full step`.execute(db);
  await sql`delete from pg_statistic where starelid in ('run'::regclass, 'step'::regclass)`.execute(db);
}

/** Accepts a batch of runs, each of its own agent without blocks. */
async function acceptBareRuns(
  count: number,
  agent: Partial<NewAgent>,
  rest: Partial<NewBatch> = {},
): Promise<{ readonly batch_id: string; readonly run_ids: readonly string[] }> {
  const agents = Array.from({ length: count }, () => anAgent(agent));
  const batch = aBatch(
    agents.map(({ id }) => aRun(id)),
    rest,
  );
  return inTransaction(db, async (trx) => {
    await createAgents(trx, DEFAULT_PROJECT_ID, agents);
    const { run_ids } = await acceptBatch(trx, DEFAULT_PROJECT_ID, batch);
    return { batch_id: batch.id, run_ids };
  });
}

test.each(['never counted', 'counted while nearly none could be seen'])(
  'reserving does not compare all pairs of steps, rows %s',
  async (when) => {
    await forgetRuns();
    const cap = { cost_nanousd: 1_000_000, output_tokens: null };
    const { batch_id, run_ids } = await acceptBareRuns(1_500, {}, { cap });
    const { id, count } = await seal(db);
    expect(count).toBe(1_500);
    // Other provider batches of the same night.
    await sql`
      insert into step select o.*
        from step s cross join generate_series(1, 20) n
       cross join lateral json_populate_record(
         s, json_build_object('run_id', gen_random_uuid(), 'provider_batch_id', md5(n::text))) o`.execute(db);
    if (when !== 'never counted') {
      await sql`analyze run`.execute(db);
      await countNearlyNone(db);
      // Statistics from before the transaction wrote more than a page of them.
      await sql`update pg_class set relpages = 10, reltuples = 1 where relname = 'step'`.execute(db);
    }
    const amount = { cost_nanousd: 1, output_tokens: 2 };
    const reserved = run_ids.map((run_id) => ({ run_id, batch_id, amount }));
    const verdict = { reserved, turned_away: [], left: null, short_batch_ids: [], paused: [] };
    const plans = await explain(database.url, async (trx) => {
      await forceGenericPlan(trx);
      await commitReservations(trx, id, verdict);
      const { rows } = await sql`
        select count(*)::int as steps, sum(reserved_nanousd)::int as held, sum(reserved_output_tokens)::int as tokens
          from step where provider_batch_id = ${id}::uuid and reserved_nanousd is not null`.execute(trx);
      expect(rows).toEqual([{ steps: 1_500, held: 1_500, tokens: 3_000 }]);
    });
    expect(plans.length).toBeGreaterThanOrEqual(2);
    for (const { statement, plan } of plans) {
      const faults = faultsOf(plan).filter((fault) => !fault.startsWith('Seq Scan'));
      expect({ statement, faults }).toEqual({ statement, faults: [] });
    }
    await sql`analyze run, step, message, tool_call, conversation`.execute(db);
  },
);

test.each(['never counted', 'counted while nearly none could be seen'])(
  'sealing runs with archival counts does not compare all pairs of runs, rows %s',
  async (when) => {
    await forgetRuns();
    const [searcher] = await createTestAgents(db, 1, { tools: ['conversation_search'] });
    await acceptBareRuns(1_500, { tool_ids: searcher!.tool_ids });
    if (when !== 'never counted') {
      await sql`analyze run`.execute(db);
      await countNearlyNone(db);
      // Statistics from before the transaction wrote more than a page of them.
      await sql`update pg_class set relpages = 10, reltuples = 1 where relname = 'step'`.execute(db);
    }
    const batch = { id: newId(), project_id: DEFAULT_PROJECT_ID, credential: 'default', nonce: newNonce() };
    const plans = await explain(database.url, async (trx) => {
      await sealReadyRuns(trx, batch, 1_500);
      const { rows } = await sql`
        select count(*)::int as steps, count(passages)::int as told from step where provider_batch_id = ${batch.id}::uuid
      `.execute(trx);
      expect(rows).toEqual([{ steps: 1_500, told: 1_500 }]);
    });
    for (const { statement, plan } of plans) {
      const faults = faultsOf(plan).filter((fault) => !fault.startsWith('Seq Scan'));
      expect({ statement, faults }).toEqual({ statement, faults: [] });
    }
    await sql`analyze run, step, message, tool_call, conversation`.execute(db);
  },
);

test.each(['never counted', 'counted'])(
  'sealing many runs of one agent counts its archival memory once, rows %s',
  async (when) => {
    await forgetRuns();
    const [searcher] = await createTestAgents(db, 1, { tools: ['conversation_search'] });
    const agentId = searcher!.id;
    await sql`delete from passage`.execute(db);
    await sql`
      insert into passage (id, project_id, agent_id, content, words, tags, batch_id, run_id, step_number, tool_use_id)
      select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, ${agentId}::uuid, 'p', to_tsvector('simple', 'p'), array['t' || n],
             gen_random_uuid(), gen_random_uuid(), 1, 'toolu_' || n
        from generate_series(1, 20) n`.execute(db);
    const runs = Array.from({ length: 1_500 }, () => ({ ...aRun(agentId), isolated: true }));
    await inTransaction(db, (trx) => acceptBatch(trx, DEFAULT_PROJECT_ID, aBatch(runs)));
    if (when === 'counted') await sql`analyze run, step, passage`.execute(db);
    const batch = { id: newId(), project_id: DEFAULT_PROJECT_ID, credential: 'default', nonce: newNonce() };
    const plans = await explain(database.url, (trx) => sealReadyRuns(trx, batch, 1_500));
    expect(rowsReadOf(plans, 'passage')).toEqual([20]);
    await sql`analyze run, step, message, tool_call, conversation`.execute(db);
  },
);

test.each(['never counted', 'counted while nearly none could be seen'])(
  'queueing the ready runs of a batch again does not compare them with all queued runs, rows %s',
  async (when) => {
    await forgetRuns();
    const { id } = await acceptBareFleet(db, 3_000);
    await sql`delete from run_chunk where id in (select id from run_chunk order by id limit 6)`.execute(db);
    if (when !== 'never counted') {
      await sql`analyze run`.execute(db);
      await countNearlyNone(db);
    }
    const plans = await explain(database.url, (trx) => queueReadyRuns(trx, id, null));
    for (const { statement, plan } of plans) {
      const faults = faultsOf(plan).filter((fault) => /Nested Loop|threw|list/.test(fault));
      expect({ statement, faults }).toEqual({ statement, faults: [] });
    }
    expect(await inTransaction(db, (trx) => queueReadyRuns(trx, id, null))).toBe(1_500);
    await sql`analyze run, step, message, tool_call, conversation`.execute(db);
  },
);

test('a look for work reads a bounded number of runs past their deadline, and sometimes all', async () => {
  await clear(db);
  const { run_ids } = await acceptBareFleet(db, 1_000);
  await seal(db);
  await sql`update run set deadline_at = statement_timestamp(), overdue_from = statement_timestamp()`.execute(
    db,
  );
  // Behind all runs at the provider.
  await sql`
    update run set state = 'ready', deadline_at = deadline_at + interval '1 s', overdue_from = deadline_at + interval '1 s'
     where id = ${run_ids[0]!}::uuid`.execute(db);
  const readOf = async (late_runs_max: number | null): Promise<{ readonly runs: number; sweep: boolean }> => {
    let sweep = false;
    const plans = await explain(database.url, async (trx) => {
      await sql`select set_config('nightshift.now', (clock_timestamp() + interval '1 minute')::text, true)`.execute(
        trx,
      );
      ({ sweep } = await readDueWork(trx, { ...DUE_QUESTION, late_runs_max }));
    });
    const runs = plans
      .flatMap(({ plan }) => [...nodesOf(plan)])
      .filter((node) => node['Relation Name'] === 'run')
      .map((node) => (node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0));
    return { runs: Math.max(...runs), sweep };
  };
  expect(await readOf(100)).toEqual({ runs: 100, sweep: false });
  expect(await readOf(null)).toEqual({ runs: 1_000, sweep: true });
});

test.each<readonly [string, (trx: Tx) => Promise<unknown>]>([
  [
    'batches that are idle',
    async (trx) => {
      await readDueWork(trx, { ...DUE_QUESTION, late_runs_max: 1 });
      await markIdleBatches(trx);
    },
  ],
  ['steps that must not be sent', (trx) => readUnsendableSteps(trx, newId())],
  ['the counts of batches', readGauges],
  [
    'what is held',
    async (trx) => {
      await claimCredential(trx, 'default', ALICE);
      await releaseAllLeases(trx, ALICE.owner);
    },
  ],
])('looks for %s read no ended batch', async (_what, look) => {
  await clear(db);
  await sql`
    insert into batch (id, project_id, state, total, completed_at)
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'completed', 0, app_now() from generate_series(1, 1_000)`.execute(
    db,
  );
  await sql`
    insert into provider_batch (id, project_id, credential, state, nonce, request_count)
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'default', 'rejected', 'rejected' || n, 0
      from generate_series(1, 1_000) n`.execute(db);
  await sql`analyze batch, provider_batch`.execute(db);
  for (const { statement, plan } of await explain(database.url, look)) {
    const read = ['batch', 'provider_batch'].flatMap((table) => rowsReadOf([{ statement, plan }], table));
    expect({ statement, read }).toEqual({ statement, read: read.map(() => 0) });
  }
});

test('a look for work reads no kept event, and a forgetting only old ones', async () => {
  await clear(db);
  await sql`delete from event`.execute(db);
  await sql`
    insert into event (project_id, type, batch_id, data)
    select ${DEFAULT_PROJECT_ID}::uuid, 'batch.running', gen_random_uuid(), '{}' from generate_series(1, 30_000)`.execute(
    db,
  );
  const look = async (trx: Tx): Promise<void> => {
    const { sweep } = await readDueWork(trx, { ...DUE_QUESTION, late_runs_max: 1 });
    await forgetEvents(trx, DUE_QUESTION.event_days);
    expect(sweep).toBe(isOld);
  };
  let isOld = false;
  for (const isCounted of [false, true]) {
    if (isCounted) await sql`analyze event`.execute(db);
    expect(Math.max(...rowsReadOf(await explain(database.url, look), 'event'))).toBe(0);
  }
  isOld = true;
  await sql`update event set created_at = created_at - interval '31 days' where id in (select id from event order by id limit 2)`.execute(
    db,
  );
  expect(Math.max(...rowsReadOf(await explain(database.url, look), 'event'))).toBeLessThanOrEqual(2);
  await forgetEvents(db, DUE_QUESTION.event_days);
  const { rows } = await sql<{ count: number }>`select count(*)::int as count from event`.execute(db);
  expect(rows).toEqual([{ count: 29_998 }]);
});

test('a sweep for waiting runs reads only their conversations', async () => {
  await clear(db);
  const { agent_ids } = await acceptBareFleet(db, 1_000);
  await accept(db, [aRun(agent_ids[0]!)]);
  for (const { plan } of await explain(database.url, (trx) => commitWaitingRunsStarted(trx, 100))) {
    const read = [...nodesOf(plan)]
      .filter((node) => ['run', 'conversation'].includes(node['Relation Name'] ?? ''))
      .map((node) => (node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0));
    expect(Math.max(...read)).toBeLessThanOrEqual(1);
  }
});

test('a sweep for very many waiting runs examines a part of them', async () => {
  await clear(db);
  const { agent_ids } = await acceptBareFleet(db, 1_000);
  await accept(
    db,
    agent_ids.map((id) => aRun(id)),
  );
  const runsRead = async (counted: number): Promise<number> => {
    await sql`update pg_class set reltuples = ${counted} where oid = 'queued_input'::regclass`.execute(db);
    const plans = await explain(database.url, (trx) => commitWaitingRunsStarted(trx, 100));
    const read = plans
      .flatMap(({ plan }) => [...nodesOf(plan)])
      .filter((node) => node['Relation Name'] === 'queued_input')
      .map((node) => (node['Actual Rows'] ?? 0) * (node['Actual Loops'] ?? 1));
    return Math.max(...read);
  };
  expect(await runsRead(-1)).toBe(1_000);
  expect(await runsRead(5_000)).toBe(1_000);
  // One page in a thousand: usually none.
  expect(await runsRead(5_000_000)).toBeLessThan(500);
});

test('a sweep for waiting runs reads no runs cancelled while they waited', async () => {
  await clear(db);
  const { agent_ids } = await acceptBareFleet(db, 1_000);
  const waiting = await accept(
    db,
    agent_ids.map((id) => aRun(id)),
  );
  await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, waiting.id));
  const [claimed] = await claimDueBatches(db, ['cancelling'], 1, ALICE);
  const place = { from_ordinal: 0, limit: 1_000 };
  await inTransaction(db, (trx) => commitRunsCancelled(trx, leaseOf('batch', claimed!), place, 0));
  await accept(db, [aRun(agent_ids[0]!)]);
  await sql`analyze run, queued_input`.execute(db);
  const plans = await explain(database.url, (trx) => commitWaitingRunsStarted(trx, 100));
  expect(Math.max(0, ...rowsReadOf(plans, 'run'))).toBeLessThanOrEqual(1);
});
