import { SHIPPED_PRICES } from '@nightshift/agent-core';
import { DEFAULT_PROJECT_ID, inTransaction } from '@nightshift/db';
import { openTestDatabase, type TestDatabase } from '@nightshift/db/testing';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { aBatch, aRun, createTestAgents } from '../../db/test/factories.ts';
import { acceptBatch } from '../src/index.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

/** Accepts a batch of one run whose agent changes after the read. */
function acceptDuring(agentId: string, change: { system: string } | { deleted_at: Date }) {
  const batch = { ...aBatch([aRun(agentId)]), shared_path: null };
  let reads = 0;
  const accepted = inTransaction(database.db, (trx) => {
    const changing = trx.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        if (reads++ === 0) {
          await database.pool.query(`update agent set ${Object.keys(change)[0] ?? ''} = $1 where id = $2`, [
            ...Object.values(change),
            agentId,
          ]);
        }
        return result;
      },
    });
    const settings = { now: new Date(), prices: SHIPPED_PRICES };
    return acceptBatch(changing, DEFAULT_PROJECT_ID, batch, settings);
  });
  return { batch, accepted };
}

test('an agent that changes after the read is planned again, so that its run has the new definition', async () => {
  const [agent] = await createTestAgents(database.db, 1);
  const { batch, accepted } = acceptDuring(agent!.id, { system: 'Changed.' });
  expect(await accepted).toMatchObject({ ready: 1, queued: 0 });
  const runs = await database.db
    .selectFrom('run')
    .innerJoin('definition as d', 'd.id', 'run.definition_id')
    .select('d.system')
    .where('batch_id', '=', batch.id)
    .execute();
  expect(runs).toEqual([{ system: 'Changed.' }]);
});

test('an agent that is deleted after the read is refused, and nothing is stored', async () => {
  const [agent] = await createTestAgents(database.db, 1);
  const { batch, accepted } = acceptDuring(agent!.id, { deleted_at: new Date(0) });
  await expect(accepted).rejects.toMatchObject({
    code: 'not_found',
    fields: [{ path: '/requests/0/agent_id' }],
  });
  const stored = await database.db.selectFrom('batch').selectAll().where('id', '=', batch.id).execute();
  expect(stored).toEqual([]);
});
