import type { MessageSearch } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  DEFAULT_PROJECT_ID,
  inTransaction,
  newId,
  readContextSeqs,
  resetMessages,
  searchMessages,
  type Database,
  type NewAgent,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { createTestAgents } from '../factories.ts';
import { explain, leaveUncounted, rowsReadOf } from '../plans.ts';

let database: TestDatabase;
let db: Database;
let agents: readonly NewAgent[];
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await leaveUncounted(db, ['conversation', 'message']);
  agents = await createTestAgents(db, 1_000, { tools: [] });
});
afterAll(() => database.close());

/** Makes an agent say `times` times that it sleeps. */
const talk = (agent: NewAgent, times: number) =>
  sql`
    insert into message (project_id, conversation_id, seq, role, content)
    select ${DEFAULT_PROJECT_ID}::uuid, ${agent.conversation_id}::uuid, n + coalesce((
             select max(seq) from message where conversation_id = ${agent.conversation_id}), 0), 'assistant',
           '[{"type":"text","text":"I sleep."}]'
      from generate_series(1, ${times}::int) n`.execute(db);
const reset = (agent: NewAgent) =>
  inTransaction(db, (trx) => resetMessages(trx, DEFAULT_PROJECT_ID, agent.id));
const searchOf = (agent: NewAgent): MessageSearch => ({
  kind: 'conversation_search',
  conversation_id: agent.conversation_id,
  run_id: newId(),
  step_number: 1,
  query: 'sleeping',
  roles: ['assistant'],
  limit: 1_000,
  from: null,
  to: null,
});

test('each reset moves the mark behind the present messages, and a reset without new messages leaves it', async () => {
  const agent = agents[0]!;
  const marks = async () => {
    await reset(agent);
    return readContextSeqs(db, agent.conversation_id);
  };
  expect(await marks()).toEqual({ from_seq: 1, reset_seq: 0, last_seq: 0 });
  await talk(agent, 3);
  expect(await marks()).toEqual({ from_seq: 4, reset_seq: 3, last_seq: 3 });
  expect(await marks()).toEqual({ from_seq: 4, reset_seq: 3, last_seq: 3 });
  await talk(agent, 2);
  expect(await marks()).toEqual({ from_seq: 6, reset_seq: 5, last_seq: 5 });
});

describe.each(['never counted', 'counted'])('searches, with rows %s,', (when) => {
  test('read the messages since the last reset of each conversation', async () => {
    const [one, two, never] = agents.slice(when === 'counted' ? 10 : 20);
    for (const agent of [one!, two!, never!]) await talk(agent, 500);
    await reset(one!);
    await reset(two!);
    await talk(one!, 2);
    if (when === 'counted') await sql`analyze conversation, message`.execute(db);
    let found: readonly (readonly unknown[])[] = [];
    const plans = await explain(database.url, async (trx) => {
      found = await searchMessages(trx, [one!, two!, never!].map(searchOf));
    });
    expect(found.map((hits) => hits.length)).toEqual([2, 0, 500]);
    // Postgres reports a mean of rows per loop.
    expect(Math.max(...rowsReadOf(plans, 'message'))).toBeLessThanOrEqual(510);
    expect(rowsReadOf(plans, 'conversation')).toEqual([3]);
  });
});
