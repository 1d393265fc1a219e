import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { DEFAULT_PROJECT_ID, readModelsInUse, readOldestDue, type Database } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { explain, leaveUncounted, rowsReadOf } from '../plans.ts';
import { acceptBareFleet } from '../worker-commits/night-shift.ts';

const AGENTS = 3_000;
const MODELS = 3;

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['agent', 'run_chunk']);
  await acceptBareFleet(db, AGENTS);
  await sql`
    update agent a set model = 'anthropic/model-' || (n.number % ${MODELS}::int)
      from (select id, row_number() over (order by id) as number from agent) n where n.id = a.id`.execute(db);
  await sql`
    insert into run_chunk (id, project_id, kind, run_ids, next_due_at)
    select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, 'ready', array[gen_random_uuid()],
           app_now() - interval '1 hour' + n * interval '1 millisecond'
      from generate_series(1, 3000) n`.execute(db);
});
afterAll(() => database.close());

describe.each(['never counted', 'counted'])('with rows %s,', (when) => {
  beforeAll(async () => {
    if (when === 'counted') await sql`vacuum analyze agent, run_chunk`.execute(db);
  });

  test('the models in use are read once each', async () => {
    const plans = await explain(database.url, async (trx) => {
      expect((await readModelsInUse(trx, DEFAULT_PROJECT_ID)).map(({ model }) => model)).toEqual([
        'anthropic/model-0',
        'anthropic/model-1',
        'anthropic/model-2',
      ]);
    });
    expect(Math.max(...rowsReadOf(plans, 'agent'))).toBeLessThanOrEqual(MODELS);
  });

  test('the oldest due row of a kind is read alone', async () => {
    const plans = await explain(database.url, async (trx) => {
      const [oldest] = await readOldestDue(trx);
      expect(oldest?.kind).toBe('ready_runs');
      expect(oldest?.waited_seconds).toBeGreaterThan(3_500);
    });
    expect(Math.max(...rowsReadOf(plans, 'run_chunk'))).toBeLessThanOrEqual(1);
  });
});
