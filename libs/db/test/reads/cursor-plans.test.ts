import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { countNewMessages, DEFAULT_PROJECT_ID, readCursors, type Database } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aRun } from '../factories.ts';
import { countNearlyNone, explain, leaveUncounted, rowsReadOf } from '../plans.ts';
import { accept, acceptBareFleet, clear } from '../worker-commits/night-shift.ts';

const AGENTS = 1_000;
const ASKED = 100;
/** Nights of each asked agent that counted, and the messages of each agent. */
const NIGHTS = 60;
const MESSAGES = NIGHTS + 1;

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, [
    'run',
    'message',
    'cursor_span',
    'cursor_rewind',
    'held_change',
    'passage',
    'agent',
    'conversation',
  ]);
});
afterAll(() => database.close());

describe.each(['never counted', 'counted', 'counted while nearly none could be seen'])(
  'after many nights, with rows %s,',
  (when) => {
    let asked: readonly string[];
    beforeAll(async () => {
      await clear(db);
      const { agent_ids } = await acceptBareFleet(db, AGENTS);
      asked = agent_ids.slice(0, ASKED);
      await accept(
        db,
        Array.from({ length: ASKED * NIGHTS }, (_, index) => ({
          ...aRun(asked[index % ASKED]!),
          isolated: true,
        })),
      );
      await sql`
        update run set state = 'completed', stop_reason = 'end_turn', ended_at = app_now(), first_seq = 1, last_seq = 1,
                       started_at = app_now()`.execute(db);
      await sql`
        insert into message (project_id, conversation_id, seq, role, content)
        select a.project_id, a.conversation_id, n, 'user', '[{"type":"text","text":"hello"}]'
          from agent a cross join generate_series(2, ${MESSAGES}::int) n where a.id = any(${[...agent_ids]}::uuid[])`.execute(
        db,
      );
      await sql`
        insert into cursor_span (run_id, agent_id, name, project_id, batch_id, from_seq, to_seq, top_seq)
        select r.id, r.agent_id, 'nightly', r.project_id, r.batch_id, night - 1, night, night
          from (select run.*, (ordinal / ${ASKED}::int) + 1 as night from run join agent a on a.id = run.agent_id
                 where run.conversation_id <> a.conversation_id) r`.execute(db);
      const tables = sql`run, message, cursor_span, cursor_rewind, held_change, passage, agent, conversation`;
      if (when !== 'never counted') await sql`analyze ${tables}`.execute(db);
      if (when === 'counted while nearly none could be seen') await countNearlyNone(db);
    });

    test.each([
      ['a reading', readCursors],
      ['a count', countNewMessages],
    ] as const)('%s reads the last span and the new message of each agent', async (_what, readOrCount) => {
      const plans = await explain(database.url, async (trx) => {
        const found = await readOrCount(trx, DEFAULT_PROJECT_ID, 'nightly', asked);
        const cursors = 'readings' in found ? found.readings : found;
        expect([...cursors.values()].map(({ position, skip }) => [position, skip])).toEqual(
          asked.map(() => [NIGHTS, null]),
        );
      });
      expect(plans).toHaveLength(2);
      for (const table of ['cursor_span', 'run', 'message', 'agent', 'conversation'])
        expect(Math.max(...rowsReadOf(plans, table)), table).toBeLessThanOrEqual(ASKED);
      for (const table of ['held_change', 'passage', 'cursor_rewind'])
        expect(Math.max(0, ...rowsReadOf(plans, table)), table).toBe(0);
    });
  },
);
