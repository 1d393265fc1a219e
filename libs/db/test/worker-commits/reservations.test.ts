import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  commitReservations,
  DEFAULT_PROJECT_ID,
  inTransaction,
  lockBudgets,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { acceptFleet, clear, seal } from './night-shift.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(() => clear(db));

const CAP = { cost_nanousd: 1_000, output_tokens: 500 };

/** Seals a step of a capped batch with the given spending and other reservations. */
async function cappedStep(used: {
  readonly spent: typeof CAP;
  readonly reserved: typeof CAP;
}): Promise<{ readonly batch_id: string; readonly run_id: string; readonly providerBatchId: string }> {
  const fleet = await acceptFleet(db, 1);
  const { id } = await seal(db);
  await sql`
    insert into batch_budget (batch_id, project_id, max_cost_nanousd, max_output_tokens, spent_nanousd, spent_output_tokens,
                              reserved_nanousd, reserved_output_tokens)
    values (${fleet.id}::uuid, ${DEFAULT_PROJECT_ID}::uuid, ${CAP.cost_nanousd}, ${CAP.output_tokens},
            ${used.spent.cost_nanousd}, ${used.spent.output_tokens},
            ${used.reserved.cost_nanousd}, ${used.reserved.output_tokens})
  `.execute(db);
  return { batch_id: fleet.id, run_id: fleet.run_ids[0] ?? '', providerBatchId: id };
}

describe('a reservation', () => {
  const NONE = { cost_nanousd: 0, output_tokens: 0 };
  const half = { cost_nanousd: 600, output_tokens: 300 };

  test.each([
    ['spending', { spent: half, reserved: NONE }],
    ['other reservations', { spent: NONE, reserved: half }],
    [
      'both',
      {
        spent: { cost_nanousd: 200, output_tokens: 100 },
        reserved: { cost_nanousd: 400, output_tokens: 200 },
      },
    ],
  ])(
    'beside %s is accepted up to the cap and refused beyond it, in dollars and in tokens',
    async (_beside, used) => {
      const { batch_id, run_id, providerBatchId } = await cappedStep(used);
      const room = { cost_nanousd: CAP.cost_nanousd - 600, output_tokens: CAP.output_tokens - 300 };
      const reserve = (amount: typeof CAP) =>
        inTransaction(db, async (trx) => {
          await lockBudgets(trx, [batch_id]);
          await commitReservations(trx, providerBatchId, {
            reserved: [{ run_id, batch_id, amount }],
            turned_away: [],
            left: null,
            short_batch_ids: [],
            paused: [],
          });
        });
      const budget = () => db.selectFrom('batch_budget').selectAll().executeTakeFirstOrThrow();
      const before = await budget();
      for (const amount of [
        { ...room, cost_nanousd: room.cost_nanousd + 1 },
        { ...room, output_tokens: room.output_tokens + 1 },
      ]) {
        await expect(reserve(amount)).rejects.toThrow(/would exceed the cap/);
        expect(await budget()).toEqual(before);
      }
      await reserve(room);
      expect(await budget()).toMatchObject({
        reserved_nanousd: used.reserved.cost_nanousd + room.cost_nanousd,
        reserved_output_tokens: used.reserved.output_tokens + room.output_tokens,
      });
      expect(
        await db.selectFrom('step').select(['reserved_nanousd', 'reserved_output_tokens']).execute(),
      ).toEqual([{ reserved_nanousd: room.cost_nanousd, reserved_output_tokens: room.output_tokens }]);
    },
  );
});
