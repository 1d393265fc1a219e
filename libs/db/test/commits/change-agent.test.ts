import { sql } from 'kysely';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import {
  attachTool,
  changeAgent,
  DEFAULT_PROJECT_ID,
  deleteTool,
  inTransaction,
  registerModuleTools,
  type Database,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { createTestAgents } from '../factories.ts';
import { untilLockIsAwaited } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());

test('a replacement of tools and a deletion of one of them do not deadlock', async () => {
  const [agent] = await createTestAgents(db, 1);
  await inTransaction(db, (trx) =>
    registerModuleTools(trx, DEFAULT_PROJECT_ID, [
      {
        name: 'wanted',
        description: '',
        input_schema: {},
        side_effects: 'none',
        return_char_limit: 1,
        timeout_ms: 1,
      },
    ]),
  );
  const { id } = await db
    .selectFrom('tool')
    .select('id')
    .where('name', '=', 'wanted')
    .executeTakeFirstOrThrow();
  await inTransaction(db, (trx) => attachTool(trx, DEFAULT_PROJECT_ID, agent!.id, id));

  let attempts = 0;
  const attempt = (act: (trx: Tx) => Promise<void>): Promise<void> =>
    inTransaction(db, (trx) => {
      attempts++;
      return act(trx);
    });
  const both = await inTransaction(db, async (trx) => {
    await sql`select from agent_tool where tool_id = ${id} for update`.execute(trx);
    const changed = attempt((own) => changeAgent(own, DEFAULT_PROJECT_ID, agent!.id, { tool_ids: [id] }));
    await untilLockIsAwaited(db);
    const deleted = attempt((own) => deleteTool(own, DEFAULT_PROJECT_ID, id));
    await untilLockIsAwaited(db, 2);
    return [changed, deleted];
  });
  expect(await Promise.allSettled(both)).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }]);
  expect(attempts).toBe(2);
});
