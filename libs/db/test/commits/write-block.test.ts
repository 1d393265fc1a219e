import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  createBlocks,
  DEFAULT_PROJECT_ID,
  deleteBlock,
  inTransaction,
  newId,
  readBlock,
  relabelBlock,
  writeBlock,
  type BlockContent,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aBlock, createTestAgents } from '../factories.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

function content(value: string, overrides: Partial<BlockContent> = {}): BlockContent {
  return aBlock({ value, ...overrides });
}

async function createBlock(value: string): Promise<string> {
  const id = newId();
  await inTransaction(database.db, (trx) =>
    createBlocks(trx, DEFAULT_PROJECT_ID, [{ id, ...content(value) }]),
  );
  return id;
}

describe('writing a block', () => {
  test('succeeds for exactly one of many writers that saw the same revision', async () => {
    const id = await createBlock('0');
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        inTransaction(database.db, (trx) => writeBlock(trx, id, 1, content(`writer ${n}`))),
      ),
    );
    expect(outcomes.filter((revision) => revision === 2)).toHaveLength(1);
    expect(outcomes.filter((revision) => revision === null)).toHaveLength(19);
    const winner = outcomes.indexOf(2);
    expect(await readBlock(database.db, DEFAULT_PROJECT_ID, id)).toMatchObject({
      revision: 2,
      value: `writer ${winner}`,
    });
  });

  test('changes nothing in a deleted block', async () => {
    const id = await createBlock('0');
    await inTransaction(database.db, (trx) => deleteBlock(trx, DEFAULT_PROJECT_ID, id));
    const written = await inTransaction(database.db, (trx) => writeBlock(trx, id, 1, content('1')));
    expect(written).toBeNull();
  });

  test('keeps the revisions of a deleted block, for requests that showed them', async () => {
    const id = await createBlock('0');
    await inTransaction(database.db, (trx) => deleteBlock(trx, DEFAULT_PROJECT_ID, id));
    const rows = await database.db
      .selectFrom('block_revision')
      .select('value')
      .where('block_id', '=', id)
      .execute();
    expect(rows).toEqual([{ value: '0' }]);
  });

  test('with a new label and no revision copies the label to the agents', async () => {
    const [agent] = await createTestAgents(database.db, 1);
    const blockId = agent!.blocks[0]!.id;
    const moved = await inTransaction(database.db, (trx) =>
      relabelBlock(trx, blockId, 1, content('Name: unknown', { label: 'person' })),
    );
    expect(moved).toBe(true);
    const rows = await database.db
      .selectFrom('agent_block')
      .select('label')
      .where('agent_id', '=', agent!.id)
      .execute();
    expect(rows).toEqual([{ label: 'person' }]);
  });
});
