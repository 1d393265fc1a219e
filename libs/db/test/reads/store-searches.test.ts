import type { MessageSearch, PassageSearch } from '@nightshift/agent-core';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  createAgents,
  DEFAULT_PROJECT_ID,
  inTransaction,
  newId,
  newRunId,
  searchMessages,
  searchPassages,
  type Database,
  type Tx,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { anAgent } from '../factories.ts';

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());

/** Agents with a conversation each. */
async function agents(count: number): Promise<ReturnType<typeof anAgent>[]> {
  const made = Array.from({ length: count }, () => anAgent());
  await inTransaction(db, (trx) => createAgents(trx, DEFAULT_PROJECT_ID, made));
  return made;
}

const STEP = { run_id: newRunId(), step_number: 1 };

function inPassages(agent_id: string, query: string, limit = 10): PassageSearch {
  const asked = { query, tags: [], tag_match: 'any', limit, from: null, to: null } as const;
  return { kind: 'archival_search', ...asked, ...STEP, agent_id, batch_id: newId() };
}

function inMessages(conversation_id: string, query: string, limit = 10): MessageSearch {
  const asked = { query, roles: ['user'], limit, from: null, to: null } as const;
  return { kind: 'conversation_search', ...asked, ...STEP, conversation_id };
}

/** What the two kinds of searches have in common: each agent's own texts, and what is found of them. */
const KINDS = [
  {
    kind: 'archival memory',
    keep: (agentId: string, _conversationId: string, texts: readonly string[]) =>
      sql`
        insert into passage (id, project_id, agent_id, content, words, tags, batch_id, run_id, step_number, tool_use_id)
        select gen_random_uuid(), ${DEFAULT_PROJECT_ID}::uuid, ${agentId}::uuid, t, to_tsvector('english', t), '{}',
               gen_random_uuid(), gen_random_uuid(), 1, 'x' from unnest(${[...texts]}::text[]) t`.execute(db),
    find: async (trx: Tx, made: readonly ReturnType<typeof anAgent>[], query: string, limit?: number) => {
      const found = await searchPassages(
        trx,
        made.map(({ id }) => inPassages(id, query, limit)),
      );
      return found.map((hits) => hits.map(({ content }) => content));
    },
    table: 'passage',
  },
  {
    kind: 'a conversation',
    keep: (_agentId: string, conversationId: string, texts: readonly string[]) =>
      sql`
        insert into message (project_id, conversation_id, seq, role, content)
        select ${DEFAULT_PROJECT_ID}::uuid, ${conversationId}::uuid, n, 'user',
               json_build_array(json_build_object('type', 'text', 'text', t))
          from unnest(${[...texts]}::text[]) with ordinality as x(t, n)`.execute(db),
    find: async (trx: Tx, made: readonly ReturnType<typeof anAgent>[], query: string, limit?: number) => {
      const found = await searchMessages(
        trx,
        made.map(({ conversation_id }) => inMessages(conversation_id, query, limit)),
      );
      return found.map((hits) => hits.map(({ content }) => content));
    },
    table: 'message',
  },
] as const;

/** In a transaction whose statements may take this long. */
const within = <T>(statementMs: number, work: (trx: Tx) => Promise<T>): Promise<T> =>
  inTransaction(db, async (trx) => {
    await sql`select set_config('statement_timeout', ${String(statementMs)}, true)`.execute(trx);
    return work(trx);
  });

describe.each(KINDS)('a search of $kind', ({ keep, find, table }) => {
  test('finds texts with any word of its query: first by number of distinct words, then by frequency', async () => {
    const made = await agents(1);
    const [{ id, conversation_id } = anAgent()] = made;
    const texts = ['rice', 'green rice', 'tea and rice', 'green tea', 'tea, tea and rice'];
    await keep(id, conversation_id, texts);
    const found = await within(60_000, (trx) => find(trx, made, 'green tea leaves'));
    expect(found).toEqual([['green tea', 'tea, tea and rice', expect.anything(), expect.anything()]]);
    expect(found[0]?.toSorted()).toEqual(texts.filter((text) => text !== 'rice').toSorted());
  });

  test('for a thousand words in long texts with most of them stays below the statement timeout', async () => {
    const made = await agents(1);
    const [{ id, conversation_id } = anAgent()] = made;
    const word = (n: number) => `w${n.toString(16)}`;
    const texts = Array.from({ length: 100 }, (_, place) =>
      Array.from({ length: 3_000 }, (_, n) => word((n * 7_919 + place) % 2_000)).join(' '),
    );
    await keep(id, conversation_id, texts);
    const query = Array.from({ length: 1_000 }, (_, n) => word(n)).join(' ');
    const [found] = await within(3_000, (trx) => find(trx, made, query));
    expect(found).toHaveLength(10);
  });

  test('of many agents at once stays below the statement timeout', async () => {
    const made = await agents(80);
    for (const [place, { id, conversation_id }] of made.entries())
      await keep(id, conversation_id, [`tea of ${place}`]);
    // A search takes 30 ms for each row that it looks at.
    await sql`alter table ${sql.table(table)} rename to kept`.execute(db);
    await sql`
      create view ${sql.table(table)} as select k.* from kept k cross join lateral (select pg_sleep(0.03)) s`.execute(
      db,
    );
    try {
      const found = await within(2_000, (trx) => find(trx, made, 'tea'));
      expect(found).toEqual(made.map((_, place) => [`tea of ${place}`]));
    } finally {
      await sql`drop view ${sql.table(table)}`.execute(db);
      await sql`alter table kept rename to ${sql.table(table)}`.execute(db);
    }
  });
});

test('a search of a conversation goes by the time at which an appended message was said', async () => {
  const [{ conversation_id } = anAgent()] = await agents(1);
  await sql`
    insert into message (project_id, conversation_id, seq, role, content, said_at)
    select ${DEFAULT_PROJECT_ID}::uuid, ${conversation_id}::uuid, n, 'user',
           json_build_array(json_build_object('type', 'text', 'text', 'tea')), said_at::timestamptz
      from unnest('{2026-03-01,2026-04-01,null}'::text[]) with ordinality as x(said_at, n)`.execute(db);
  const search = {
    ...inMessages(conversation_id, 'tea'),
    from: new Date('2026-02-01'),
    to: new Date('2026-03-15'),
  };
  const [hits] = await within(60_000, (trx) => searchMessages(trx, [search]));
  expect(hits).toMatchObject([{ content: 'tea', created_at: new Date('2026-03-01T00:00:00Z') }]);
});
