import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { DEFAULT_PROJECT_ID, listSecrets, readSecretsFor, type Database } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { createTestAgents } from '../factories.ts';
import { explain, leaveUncounted, rowsReadOf } from '../plans.ts';

const AGENTS = 5_000;
const ASKED = 200;

let database: TestDatabase;
let db: Database;
let agentIds: readonly string[];
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['secret']);
  agentIds = (await createTestAgents(db, AGENTS)).map(({ id }) => id);
  await sql`
    insert into secret (project_id, agent_id, name, key_id, nonce, ciphertext)
    select ${DEFAULT_PROJECT_ID}::uuid, a.id, n.name, repeat('0', 16), decode(repeat('00', 12), 'hex'), decode(repeat('00', 40), 'hex')
      from (select id from agent union all select null) a, unnest('{ONE,TWO,THREE,FOUR}'::text[]) n (name)
  `.execute(db);
});
afterAll(() => database.close());

describe.each(['never counted', 'counted'])('secrets, with rows %s,', (when) => {
  beforeAll(async () => {
    if (when === 'counted') await sql`analyze secret`.execute(db);
  });

  test('of the agents of a chunk are found by their places', async () => {
    let found = 0;
    const plans = await explain(database.url, async (trx) => {
      const secrets = await readSecretsFor(
        trx,
        DEFAULT_PROJECT_ID,
        ['ONE', 'FOUR'],
        agentIds.slice(0, ASKED),
      );
      found = secrets.length;
    });
    expect(found).toBe(2 * (ASKED + 1));
    expect(Math.max(...rowsReadOf(plans, 'secret'))).toBeLessThan(5 * (ASKED + 1));
  });

  test('of the project are listed without those of agents', async () => {
    const plans = await explain(database.url, async (trx) => {
      expect(await listSecrets(trx, DEFAULT_PROJECT_ID)).toHaveLength(4);
    });
    expect(Math.max(...rowsReadOf(plans, 'secret'))).toBe(4);
  });
});
