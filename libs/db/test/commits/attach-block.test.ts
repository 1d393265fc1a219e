import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  attachBlock,
  auditInvariants,
  changeAgent,
  createAgents,
  createBlocks,
  DEFAULT_PROJECT_ID,
  deleteBlock,
  inTransaction,
  newId,
  relabelBlock,
  type Database,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aBlock, anAgent, createTestAgents } from '../factories.ts';
import { gate, untilLockIsAwaited } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
afterEach(async () => expect(await auditInvariants(db)).toEqual([]));

const CONTENT = aBlock({ label: 'plan', value: 'x' });

async function createBlock(): Promise<string> {
  const id = newId();
  await inTransaction(db, (trx) => createBlocks(trx, DEFAULT_PROJECT_ID, [{ id, ...CONTENT }]));
  return id;
}

async function holdersOf(blockId: string): Promise<number> {
  const rows = await db
    .selectFrom('agent_block')
    .select('agent_id')
    .where('block_id', '=', blockId)
    .execute();
  return rows.length;
}

/** Runs `first`, and delays its commit until `second` waits for it. */
async function meet(
  first: (trx: Tx) => Promise<unknown>,
  second: (trx: Tx) => Promise<unknown>,
): Promise<readonly [PromiseSettledResult<unknown>, PromiseSettledResult<unknown>]> {
  const [done, goOn] = [gate(), gate()];
  const one = inTransaction(db, async (trx) => {
    await first(trx);
    done.open();
    await goOn.opened;
  });
  await done.opened;
  const other = inTransaction(db, second);
  await untilLockIsAwaited(db);
  goOn.open();
  return Promise.allSettled([one, other]);
}

const WAYS: readonly (readonly [string, (trx: Tx, agentId: string, blockId: string) => Promise<void>])[] = [
  ['attached', (trx, agentId, blockId) => attachBlock(trx, DEFAULT_PROJECT_ID, agentId, blockId)],
  [
    'put into the list of an agent',
    (trx, agentId, blockId) => changeAgent(trx, DEFAULT_PROJECT_ID, agentId, { block_ids: [blockId] }),
  ],
  [
    'given to a new agent',
    (trx, _agentId, blockId) => createAgents(trx, DEFAULT_PROJECT_ID, [anAgent({ block_ids: [blockId] })]),
  ],
];

describe.each(WAYS)('a block that is %s', (_name, give) => {
  test('during its deletion is not found', async () => {
    const [agent] = await createTestAgents(db, 1);
    const id = await createBlock();
    const [deleted, given] = await meet(
      (trx) => deleteBlock(trx, DEFAULT_PROJECT_ID, id),
      (trx) => give(trx, agent!.id, id),
    );
    expect(deleted.status).toBe('fulfilled');
    expect(given).toMatchObject({ status: 'rejected', reason: { code: 'not_found' } });
    expect(await holdersOf(id)).toBe(0);
  });

  test('before its deletion is detached again', async () => {
    const [agent] = await createTestAgents(db, 1);
    const id = await createBlock();
    const both = await meet(
      (trx) => give(trx, agent!.id, id),
      (trx) => deleteBlock(trx, DEFAULT_PROJECT_ID, id),
    );
    expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
    expect(await holdersOf(id)).toBe(0);
  });

  test('during its renaming has its new label', async () => {
    const [agent] = await createTestAgents(db, 1);
    const id = await createBlock();
    const both = await meet(
      (trx) => relabelBlock(trx, id, 1, { ...CONTENT, label: 'goal' }),
      (trx) => give(trx, agent!.id, id),
    );
    expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
    const { rows } = await sql`select label from agent_block where block_id = ${id}::uuid`.execute(db);
    expect(rows).toEqual([{ label: 'goal' }]);
  });

  test('is not found after its deletion or under another project', async () => {
    const [agent] = await createTestAgents(db, 1);
    const id = await createBlock();
    await inTransaction(db, (trx) => deleteBlock(trx, DEFAULT_PROJECT_ID, id));
    for (const blockId of [id, newId()]) {
      const given = inTransaction(db, (trx) => give(trx, agent!.id, blockId));
      await expect(given).rejects.toMatchObject({ code: 'not_found' });
    }
  });
});

test('two agents get the same block at once', async () => {
  const [one, other] = await createTestAgents(db, 2);
  const id = await createBlock();
  await inTransaction(db, async (trx) => {
    await attachBlock(trx, DEFAULT_PROJECT_ID, one!.id, id);
    await inTransaction(db, async (beside) => {
      await sql`set local lock_timeout = '1ms'`.execute(beside);
      await attachBlock(beside, DEFAULT_PROJECT_ID, other!.id, id);
    });
  });
  expect(await holdersOf(id)).toBe(2);
});
