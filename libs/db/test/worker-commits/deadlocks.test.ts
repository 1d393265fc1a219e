import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import {
  auditInvariants,
  claimDueBatches,
  claimToolsChunk,
  commitDecisions,
  commitRunsCancelled,
  commitWaitingRunsStarted,
  DEFAULT_PROJECT_ID,
  holdLease,
  inTransaction,
  lockBlocksOfAgents,
  markFinishedBatches,
  markIdleBatches,
  requestBatchCancel,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aRun, createTestAgents } from '../factories.ts';
import { accept, act, ALICE, callsTools, decide, DONE, end, leaseOf, seal, clear } from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() => clear(db));

const AGENTS = 24;
const ROUNDS = 12;

/** Postgres' own count of deadlocks in this database. */
async function deadlocks(): Promise<number> {
  await sql`select pg_stat_force_next_flush()`.execute(db);
  const { rows } = await sql<{ deadlocks: number }>`
    select deadlocks::int from pg_stat_database where datname = current_database()`.execute(db);
  return rows[0]!.deadlocks;
}

test('commits, cancels, accepts and sweeps in any order never deadlock, and lose no run', async () => {
  const agents = await createTestAgents(db, AGENTS);
  // Every agent also has its neighbour's block, so that chunks of different runs lock the same blocks.
  await sql`
    with own as (select agent_id, block_id, label, project_id, row_number() over (order by agent_id) as place from agent_block),
    renamed as (update block b set label = 'human' || own.place from own where own.block_id = b.id returning b.id, b.label)
    select count(*) from renamed`.execute(db);
  await sql`
    with own as (select agent_id, block_id, label, project_id, row_number() over (order by agent_id) as place from agent_block)
    insert into agent_block (agent_id, block_id, label, project_id, position)
    select a.agent_id, b.block_id, b.label, b.project_id, 1 from own a join own b on b.place = a.place % ${AGENTS} + 1`.execute(
    db,
  );
  const ids = agents.map((agent) => agent.id);
  const runsOf = (order: readonly string[]) => order.map((id) => aRun(id));
  await accept(db, runsOf(ids));

  const failures: unknown[] = [];
  const noting = (work: Promise<unknown>): Promise<unknown> =>
    work.catch((error: unknown) => failures.push(error));
  for (let round = 0; round < ROUNDS; round++) {
    const doomed = await accept(db, runsOf(round % 2 === 0 ? ids : [...ids].reverse()));
    const first = await seal(db, 10);
    const second = await seal(db);
    const sealed = [first, second].filter(({ count }) => count > 0);
    const leases = await Promise.all(sealed.map(({ id }) => end(db, id)));

    const commits = leases.flatMap((lease) => {
      const chunk = async (half: number): Promise<unknown> => {
        const { rows } = await sql<{ run_id: string; agent_id: string }>`
          select s.run_id, r.agent_id from step s join run r on r.id = s.run_id
           where s.provider_batch_id = ${lease.id}::uuid and s.ordinal % 2 = ${half} order by s.ordinal desc`.execute(
          db,
        );
        const decided = await decide(
          db,
          new Map(rows.map(({ run_id }, index) => [run_id, index % 3 === 0 ? callsTools() : DONE])),
        );
        const report = await inTransaction(db, async (trx) => {
          await holdLease(trx, lease);
          await lockBlocksOfAgents(trx, rows.map((row) => row.agent_id).reverse());
          // A single slot, so that every commit locks the same counts.
          return commitDecisions(trx, decided, 0);
        });
        return markFinishedBatches(db, report.ended_batch_ids);
      };
      return [chunk(0), chunk(1)];
    });
    const cancel = async (): Promise<unknown> => {
      await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, doomed.id));
      for (const claimed of await claimDueBatches(db, ['cancelling'], 3, ALICE)) {
        const lease = leaseOf('batch', claimed);
        await inTransaction(db, async (trx) => {
          await holdLease(trx, lease);
          await commitRunsCancelled(trx, lease, { from_ordinal: 0, limit: 100 }, 0);
        });
      }
      return null;
    };
    const sweep = async (): Promise<unknown> => {
      await inTransaction(db, (trx) => commitWaitingRunsStarted(trx, 100));
      return markIdleBatches(db);
    };
    const tools = async (): Promise<unknown> => {
      const chunk = await claimToolsChunk(db, ALICE);
      return chunk === null ? null : act(db, chunk);
    };
    await Promise.all(
      [...commits, cancel(), accept(db, runsOf([...ids].reverse())), sweep(), tools(), sweep()].map(noting),
    );
  }
  expect(failures).toEqual([]);
  expect(await deadlocks()).toBe(0);

  // Drained sequentially, every run ends, and every conversation is free.
  for (let round = 0; round < 200; round++) {
    await inTransaction(db, (trx) => commitWaitingRunsStarted(trx, 1_000));
    for (
      let chunk = await claimToolsChunk(db, ALICE);
      chunk !== null;
      chunk = await claimToolsChunk(db, ALICE)
    )
      await act(db, chunk);
    const { id, count } = await seal(db);
    if (count > 0) {
      const lease = await end(db, id);
      await inTransaction(db, async (trx) => {
        await holdLease(trx, lease);
        const rows = await trx
          .selectFrom('step')
          .select('run_id')
          .where('provider_batch_id', '=', id)
          .execute();
        const decided = await decide(trx, new Map(rows.map((row) => [row.run_id, DONE])));
        await commitDecisions(trx, decided);
      });
    }
    await sql`update batch set lease_until = '-infinity', next_due_at = app_now() where state = 'cancelling'`.execute(
      db,
    );
    for (const claimed of await claimDueBatches(db, ['cancelling'], 100, ALICE)) {
      const lease = leaseOf('batch', claimed);
      await inTransaction(db, (trx) => commitRunsCancelled(trx, lease, { from_ordinal: 0, limit: 1_000 }, 0));
    }
    const open = await db.selectFrom('run').select('id').where('ended_at', 'is', null).limit(1).execute();
    if (open.length === 0) break;
  }
  const states = await db.selectFrom('run').select('state').distinct().execute();
  expect(states.map((row) => row.state).sort()).toEqual(['cancelled', 'completed']);
  expect(await db.selectFrom('conversation').select('id').where('run_id', 'is not', null).execute()).toEqual(
    [],
  );
  const { rows: gaps } = await sql`
    select conversation_id from message group by 1 having min(seq) <> 1 or max(seq) <> count(*)`.execute(db);
  expect(gaps).toEqual([]);
  expect((await auditInvariants(db)).filter(({ id }) => id === 'I11')).toEqual([]);
});
