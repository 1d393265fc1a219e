import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  attachBlock,
  createBlocks,
  DEFAULT_PROJECT_ID,
  inTransaction,
  lockBlocksOfAgents,
  lockRuns,
  newId,
  writeBlock,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aBlock } from '../factories.ts';
import { acceptFleet, gate, untilLockIsAwaited } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());

const ROUNDS = 25;

describe('locking runs', () => {
  test('returns them in id order with the state of their batch, in whatever order they are requested', async () => {
    const fleet = await acceptFleet(db, 5);
    const runs = await inTransaction(db, (trx) => lockRuns(trx, [...fleet.run_ids].reverse()));
    expect([...runs.keys()]).toEqual([...fleet.run_ids].sort());
    expect([...runs.values()][0]).toMatchObject({
      batch_id: fleet.id,
      batch_state: 'running',
      state: 'ready',
      step_number: 1,
      attempt: 1,
      last_seq: 1,
    });
  });

  test('reads the commit of the previous holder', async () => {
    const fleet = await acceptFleet(db, 1);
    const [locked, written] = [gate(), gate()];
    const first = inTransaction(db, async (trx) => {
      await lockRuns(trx, fleet.run_ids);
      locked.open();
      await written.opened;
      await sql`update run set attempt = 2 where id = ${fleet.run_ids[0]!}::uuid`.execute(trx);
    });
    await locked.opened;
    const second = inTransaction(db, (trx) => lockRuns(trx, fleet.run_ids));
    await untilLockIsAwaited(db);
    written.open();
    await first;
    expect([...(await second).values()][0]).toMatchObject({ attempt: 2 });
  });

  test('in opposite orders never deadlocks', async () => {
    const fleet = await acceptFleet(db, 40);
    const reversed = [...fleet.run_ids].reverse();
    const locks = Array.from({ length: ROUNDS }, (_, round) =>
      inTransaction(db, (trx) => lockRuns(trx, round % 2 === 0 ? fleet.run_ids : reversed)),
    );
    expect((await Promise.all(locks)).every((runs) => runs.size === 40)).toBe(true);
  });

  test('does not block inserts that refer to a run', async () => {
    const fleet = await acceptFleet(db, 1);
    await inTransaction(db, async (trx) => {
      await lockRuns(trx, fleet.run_ids);
      // On another connection: its foreign key needs only the existence of the run.
      await inTransaction(database.db, async (other) => {
        await sql`set local lock_timeout = '1ms'`.execute(other);
        await sql`insert into queued_input (run_id, project_id, messages)
          values (${fleet.run_ids[0]!}::uuid, ${DEFAULT_PROJECT_ID}::uuid, '[]')`.execute(other);
      });
    });
  });
});

describe('locking blocks', () => {
  test('returns the blocks of each agent in attach order, at their head revisions', async () => {
    const fleet = await acceptFleet(db, 2);
    const blocks = await inTransaction(db, (trx) => lockBlocksOfAgents(trx, fleet.agent_ids));
    expect(blocks.map((block) => [block.agent_id, block.label, block.revision])).toEqual(
      [...fleet.agent_ids].sort().map((id) => [id, 'human', 1]),
    );
    expect(await inTransaction(db, (trx) => lockBlocksOfAgents(trx, []))).toEqual([]);
  });

  test('returns a shared block once per agent, with the text of the previous writer', async () => {
    const fleet = await acceptFleet(db, 2);
    const [own] = await inTransaction(db, (trx) => lockBlocksOfAgents(trx, [fleet.agent_ids[0]!]));
    await sql`insert into agent_block (agent_id, block_id, label, project_id, position)
      values (${fleet.agent_ids[1]!}::uuid, ${own!.block_id}::uuid, 'shared', ${DEFAULT_PROJECT_ID}::uuid, 9)`
      .execute(db)
      .catch((error: unknown) => {
        // A label follows its block: the shared block keeps its label.
        expect(error).toMatchObject({ code: '23503' });
      });
    await sql`delete from agent_block where agent_id = ${fleet.agent_ids[1]!}::uuid`.execute(db);
    await sql`insert into agent_block (agent_id, block_id, label, project_id, position)
      values (${fleet.agent_ids[1]!}::uuid, ${own!.block_id}::uuid, 'human', ${DEFAULT_PROJECT_ID}::uuid, 0)`.execute(
      db,
    );

    const [locked, written] = [gate(), gate()];
    const writer = inTransaction(db, async (trx) => {
      await lockBlocksOfAgents(trx, [fleet.agent_ids[0]!]);
      locked.open();
      await written.opened;
      await writeBlock(trx, own!.block_id, own!.revision, aBlock({ value: 'rewritten' }));
    });
    await locked.opened;
    const reader = inTransaction(db, (trx) => lockBlocksOfAgents(trx, fleet.agent_ids));
    await untilLockIsAwaited(db);
    written.open();
    await writer;
    expect((await reader).map((block) => [block.block_id, block.revision, block.value])).toEqual([
      [own!.block_id, 2, 'rewritten'],
      [own!.block_id, 2, 'rewritten'],
    ]);
  });

  test('sends the text of a shared block once, however many agents have it', async () => {
    const fleet = await acceptFleet(db, 3);
    const shared = newId();
    await inTransaction(db, async (trx) => {
      const content = aBlock({ label: 'shared', value: 'long' });
      await createBlocks(trx, DEFAULT_PROJECT_ID, [{ id: shared, ...content }]);
    });
    for (const id of fleet.agent_ids)
      await inTransaction(db, (trx) => attachBlock(trx, DEFAULT_PROJECT_ID, id, shared));
    const sent: unknown[] = [];
    const listening = db.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult({ result }) {
        sent.push(
          ...result.rows.flatMap(({ value }) => (value === undefined || value === null ? [] : [value])),
        );
        return Promise.resolve(result);
      },
    });
    const blocks = await inTransaction(listening, (trx) => lockBlocksOfAgents(trx, fleet.agent_ids));
    expect(blocks.map((block) => [block.agent_id, block.label, block.value])).toEqual(
      [...fleet.agent_ids].sort().flatMap((id) => [
        [id, 'human', 'Name: unknown'],
        [id, 'shared', 'long'],
      ]),
    );
    expect(sent.toSorted()).toEqual(['Name: unknown', 'Name: unknown', 'Name: unknown', 'long']);
  });

  test('returns no block that was attached during the wait, since it is not locked', async () => {
    const fleet = await acceptFleet(db, 1);
    const [agentId = ''] = fleet.agent_ids;
    const [own] = await inTransaction(db, (trx) => lockBlocksOfAgents(trx, [agentId]));
    const late = newId();
    await inTransaction(db, (trx) =>
      createBlocks(trx, DEFAULT_PROJECT_ID, [{ id: late, ...aBlock({ label: 'late' }) }]),
    );
    const [locked, attached] = [gate(), gate()];
    const holder = inTransaction(db, async (trx) => {
      await lockBlocksOfAgents(trx, [agentId]);
      locked.open();
      await attached.opened;
    });
    await locked.opened;
    const waiting = inTransaction(db, (trx) => lockBlocksOfAgents(trx, [agentId]));
    await untilLockIsAwaited(db);
    await inTransaction(db, (trx) => attachBlock(trx, DEFAULT_PROJECT_ID, agentId, late));
    attached.open();
    await holder;
    expect((await waiting).map((block) => block.block_id)).toEqual([own!.block_id]);
    const next = await inTransaction(db, (trx) => lockBlocksOfAgents(trx, [agentId]));
    expect(next.map((block) => block.block_id)).toEqual([own!.block_id, late]);
  });

  test('in opposite orders never deadlocks', async () => {
    const fleet = await acceptFleet(db, 40);
    const reversed = [...fleet.agent_ids].reverse();
    const locks = Array.from({ length: ROUNDS }, (_, round) =>
      inTransaction(db, (trx) => lockBlocksOfAgents(trx, round % 2 === 0 ? fleet.agent_ids : reversed)),
    );
    expect((await Promise.all(locks)).every((blocks) => blocks.length === 40)).toBe(true);
  });
});
