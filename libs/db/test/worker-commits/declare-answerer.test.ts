import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { declareAnswerer, inTransaction, newId, type Database } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { explain, rowsReadOf } from '../plans.ts';
import { acceptFleet, clear, gate, untilLockIsAwaited } from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(async () => {
  await clear(db);
  await sql`update credential set simulated = null`.execute(db);
});

const declare = (simulated: boolean): Promise<void> =>
  inTransaction(db, (trx) => declareAnswerer(trx, 'default', simulated));

async function declared(): Promise<boolean | null> {
  const row = await db.selectFrom('credential').select('simulated').executeTakeFirstOrThrow();
  return row.simulated;
}

async function putProviderBatch(state: 'submitted' | 'ingested'): Promise<void> {
  const id = newId();
  await sql`insert into provider_batch (id, project_id, credential, state, nonce, request_count, next_due_at, provider_id,
              submitted_at, submit_started_at, body_bytes, body_sha256, ended_at, ingested_at)
    values (${id}::uuid, '00000000-0000-4000-8000-000000000000', 'default', ${state}, ${id.slice(-12)}, 1,
            ${state === 'submitted' ? sql`app_now()` : null}, ${id}, app_now(), app_now(), 1, ${'0'.repeat(64)},
            ${state === 'ingested' ? sql`app_now()` : null}, ${state === 'ingested' ? sql`app_now()` : null})`.execute(
    db,
  );
}

test.each([true, false])(
  'a credential without a declaration accepts any answerer (simulated: %s)',
  async (simulated) => {
    await acceptFleet(db, 1);
    await putProviderBatch('submitted');
    await declare(simulated);
    await declare(simulated);
    expect(await declared()).toBe(simulated);
  },
);

test('the answerer may change in both directions when nothing is unfinished', async () => {
  await putProviderBatch('ingested');
  for (const simulated of [true, false, true]) {
    await declare(simulated);
    expect(await declared()).toBe(simulated);
  }
});

test.each([
  [
    true,
    'real',
    /^Unfinished at the simulator: 2 runs, 1 provider batch\. .*Start without ANTHROPIC_API_KEY /,
  ],
  [
    false,
    'simulated',
    /^Unfinished at the real provider: 2 runs, 1 provider batch\. .*Start with ANTHROPIC_API_KEY /,
  ],
])('unfinished work (simulated: %s) blocks a change to the %s answerer', async (simulated, _, message) => {
  await declare(simulated);
  await acceptFleet(db, 2);
  await putProviderBatch('submitted');
  await expect(declare(!simulated)).rejects.toMatchObject({
    code: 'other_provider',
    message: expect.stringMatching(message) as unknown,
  });
  expect(await declared()).toBe(simulated);
});

test('an open provider batch of ended runs blocks a change', async () => {
  await declare(false);
  await putProviderBatch('submitted');
  await expect(declare(true)).rejects.toThrow(/^Unfinished at the real provider: 1 provider batch\. /);
});

test('of two simultaneous starts with different providers the second is refused', async () => {
  await acceptFleet(db, 1);
  const { opened, open } = gate();
  const said = gate();
  const first = inTransaction(db, async (trx) => {
    await declareAnswerer(trx, 'default', true);
    said.open();
    await opened;
  });
  await said.opened;
  const second = declare(false);
  const refused = expect(second).rejects.toMatchObject({ code: 'other_provider' });
  await untilLockIsAwaited(db);
  open();
  await first;
  await refused;
});

test('a change of the answerer reads no ended rows', async () => {
  await declare(false);
  const { id } = await acceptFleet(db, 100);
  await sql`
    update run set state = 'completed', stop_reason = 'end_turn', ended_at = app_now()`.execute(db);
  await sql`insert into batch_tally (batch_id, slot, project_id, completed)
            select id, 0, project_id, total from batch where id = ${id}::uuid`.execute(db);
  await sql`update batch set state = 'completed', completed_at = app_now() where id = ${id}::uuid`.execute(
    db,
  );
  for (let n = 0; n < 100; n++) await putProviderBatch('ingested');
  await sql`analyze provider_batch`.execute(db);
  const plans = await explain(database.url, (trx) => declareAnswerer(trx, 'default', true));
  expect(rowsReadOf(plans, 'run')).toEqual([]);
  expect(rowsReadOf(plans, 'provider_batch')).toEqual([0]);
});
