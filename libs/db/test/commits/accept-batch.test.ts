import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  commitBatch,
  DEFAULT_PROJECT_ID,
  inTransaction,
  readRunAgents,
  requestedDefinitions,
  type NewRun,
} from '../../src/index.ts';
import { acceptBatch, openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aBatch, aClientTool, aRun, createTestAgents } from '../factories.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

function accept(runs: readonly NewRun[], overrides: Partial<Parameters<typeof acceptBatch>[2]> = {}) {
  const batch = aBatch(runs, overrides);
  return inTransaction(database.db, async (trx) => ({
    id: batch.id,
    ...(await acceptBatch(trx, DEFAULT_PROJECT_ID, batch)),
  }));
}

describe('accepting a batch', () => {
  test('starts one run per agent and appends its input to the conversation', async () => {
    const [one, two] = await createTestAgents(database.db, 2);
    const batch = await accept([aRun(one!.id, ['hello', 'again']), aRun(two!.id)]);
    expect(batch).toMatchObject({ ready: 2, queued: 0 });
    const runs = await database.db
      .selectFrom('run')
      .selectAll()
      .where('batch_id', '=', batch.id)
      .orderBy('ordinal')
      .execute();
    expect(runs.map((run) => run.id)).toEqual(batch.run_ids);
    expect(runs.map((run) => [run.state, run.first_seq, run.last_seq])).toEqual([
      ['ready', 1, 2],
      ['ready', 1, 1],
    ]);
    const messages = await database.db
      .selectFrom('message')
      .selectAll()
      .where('conversation_id', '=', one!.conversation_id)
      .orderBy('seq')
      .execute();
    expect(messages.map((message) => [message.seq, message.run_id, message.role, message.content])).toEqual([
      [1, runs[0]!.id, 'user', [{ type: 'text', text: 'hello' }]],
      [2, runs[0]!.id, 'user', [{ type: 'text', text: 'again' }]],
    ]);
  });

  test('checks the additions of a run once, however many agents have rules', async () => {
    const agents = await createTestAgents(database.db, 50);
    await sql`update agent set tool_rules = '[{"type":"constrain_child_tools","tool_name":"a","children":[]}]'
               where id = any(${agents.map(({ id }) => id)}::uuid[])`.execute(database.db);
    await sql`update agent set system = id::text`.execute(database.db);
    let looks = 0;
    const runs = agents.map(({ id }): NewRun => ({
      ...aRun(id),
      get client_tools() {
        looks++;
        return [];
      },
    }));
    expect((await accept(runs)).ready).toBe(50);
    expect(looks).toBeLessThanOrEqual(2 * runs.length);
  });

  test('hands the starting runs to the compose flow in chunks, and their conversations to the runs', async () => {
    const agents = await createTestAgents(database.db, 600);
    const batch = await accept([...agents, ...agents].map((agent) => aRun(agent.id)));
    const { rows } = await sql<{ run_ids: string[]; is_due: boolean }>`
      select run_ids, next_due_at <= app_now() as is_due from run_chunk
      where kind = 'ready' and run_ids && ${[...batch.run_ids]}::uuid[] order by run_ids[1]
    `.execute(database.db);
    expect(rows.map((row) => [row.run_ids.length, row.is_due])).toEqual([
      [250, true],
      [250, true],
      [100, true],
    ]);
    expect(rows.flatMap((row) => row.run_ids)).toEqual(batch.run_ids.slice(0, 600));
    const held = await database.db
      .selectFrom('conversation')
      .select(['id', 'run_id'])
      .where(
        'id',
        'in',
        agents.map((agent) => agent.conversation_id),
      )
      .execute();
    const holders = new Map(held.map((row) => [row.id, row.run_id]));
    expect(agents.map((agent) => holders.get(agent.conversation_id))).toEqual(batch.run_ids.slice(0, 600));
  });

  test('gives the runs of an agent turns in request order, also behind an earlier batch', async () => {
    const [agent] = await createTestAgents(database.db, 1);
    const first = await accept([aRun(agent!.id), aRun(agent!.id), aRun(agent!.id)]);
    const second = await accept([aRun(agent!.id)]);
    expect([first.ready, first.queued, second.ready, second.queued]).toEqual([1, 2, 0, 1]);
    const waiting = await database.db
      .selectFrom('run')
      .select('id')
      .where('conversation_id', '=', agent!.conversation_id)
      .where('state', '=', 'queued')
      .orderBy('created_at')
      .orderBy('id')
      .execute();
    expect(waiting.map((run) => run.id)).toEqual([first.run_ids[1], first.run_ids[2], second.run_ids[0]]);
    const input = await database.db
      .selectFrom('queued_input')
      .select('messages')
      .where('run_id', '=', second.run_ids[0]!)
      .executeTakeFirstOrThrow();
    expect(input.messages).toEqual([
      { content: [{ type: 'text', text: 'go' }], role: 'user', otid: null, name: null },
    ]);
  });

  test('gives an isolated run a conversation of its own, so that it never waits', async () => {
    const [agent] = await createTestAgents(database.db, 1);
    const batch = await accept([aRun(agent!.id), { ...aRun(agent!.id), isolated: true }]);
    expect(batch).toMatchObject({ ready: 2, queued: 0 });
    const runs = await database.db
      .selectFrom('run')
      .select('conversation_id')
      .where('batch_id', '=', batch.id)
      .orderBy('ordinal')
      .execute();
    expect(runs[0]!.conversation_id).toBe(agent!.conversation_id);
    expect(runs[1]!.conversation_id).not.toBe(agent!.conversation_id);
  });

  test('stores nothing when an agent was changed or deleted since it was read', async () => {
    const [changed, deleted] = await createTestAgents(database.db, 2, { system: 'Not stored yet.' });
    const counts = () =>
      sql`select (select count(*) from batch) as b, (select count(*) from run) as r, (select count(*) from message) as m,
        (select count(*) from definition) as d`.execute(database.db);
    const before = await counts();
    for (const [agent, change] of [
      [changed!, sql`system = 'changed'`],
      [deleted!, sql`deleted_at = app_now()`],
    ] as const) {
      const batch = aBatch([aRun(agent.id)]);
      const wishes = requestedDefinitions(batch.runs);
      const agents = await readRunAgents(database.db, DEFAULT_PROJECT_ID, wishes);
      await sql`update agent set ${change} where id = ${agent.id}`.execute(database.db);
      const accepted = await inTransaction(database.db, (trx) =>
        commitBatch(trx, DEFAULT_PROJECT_ID, batch, wishes, [...agents.values()]),
      );
      expect(accepted).toBeNull();
    }
    expect((await counts()).rows).toEqual(before.rows);
  });

  test('freezes equal agents as one definition with tools in order', async () => {
    const agents = await createTestAgents(database.db, 3, {
      system: 'same',
      tools: ['memory_replace', 'memory_insert'],
    });
    const [other] = await createTestAgents(database.db, 1, {
      system: 'same',
      tools: ['memory_insert', 'memory_replace'],
    });
    const batch = await accept([...agents, other!].map((agent) => aRun(agent.id)));
    const runs = await database.db
      .selectFrom('run')
      .innerJoin('definition as d', 'd.id', 'run.definition_id')
      .select(['d.id', 'd.tools'])
      .where('batch_id', '=', batch.id)
      .orderBy('ordinal')
      .execute();
    expect(new Set(runs.map((run) => run.id)).size).toBe(2);
    expect(runs[0]!.tools.map((tool) => tool.name)).toEqual(['memory_replace', 'memory_insert']);
    expect(Object.keys((runs[0]!.tools as object[])[0]!)).toEqual([
      'name',
      'kind',
      'description',
      'input_schema',
      'side_effects',
      'return_char_limit',
      'timeout_ms',
      'requires_approval',
    ]);
  });

  test('freezes the agent and request of each run, however they are mixed', async () => {
    const agents = [
      ...(await createTestAgents(database.db, 2, { system: 'alike' })),
      ...(await createTestAgents(database.db, 2, { system: 'alike', tools: ['memory_insert'] })),
      ...(await createTestAgents(database.db, 2, { system: 'other' })),
      ...(await createTestAgents(database.db, 2, { system: 'alike', tools: [] })),
    ];
    const requests: readonly Partial<NewRun>[] = [
      {},
      { client_tools: [aClientTool('ask')] },
      { client_tools: [aClientTool('ask'), aClientTool('tell')] },
      { result_format: { schema: { type: 'string' } } },
      { client_tools: [aClientTool('ask')], result_format: { schema: { type: 'string' } } },
    ];
    const runs = requests.flatMap((request) => agents.map(({ id }) => ({ ...aRun(id), ...request })));
    const batch = await accept([...runs, ...runs]);
    const { rows } = await sql<{
      agent_id: string;
      id: string;
      conversation_id: string;
      system: string;
      tools: { name: string }[];
      result_format: unknown;
    }>`
      select r.agent_id, r.conversation_id, d.id, d.system, d.tools, d.result_format
      from run r join definition d on d.id = r.definition_id where r.batch_id = ${batch.id} order by r.ordinal
    `.execute(database.db);
    const toolsOf = new Map(
      agents.map(({ id }, place) => [
        id,
        [['rethink_memory'], ['memory_insert'], ['rethink_memory'], []][place >> 1],
      ]),
    );
    expect(
      rows.map(({ id: _, tools, ...row }) => ({ ...row, tools: tools.map(({ name }) => name) })),
    ).toEqual(
      [...runs, ...runs].map((run) => {
        const agent = agents.find(({ id }) => id === run.agent_id)!;
        return {
          agent_id: agent.id,
          conversation_id: agent.conversation_id,
          system: agent.system,
          tools: [...toolsOf.get(agent.id)!, ...(run.client_tools ?? []).map(({ name }) => name)],
          result_format: run.result_format ?? null,
        };
      }),
    );
    expect(new Set(rows.map(({ id }) => id)).size).toBe(requests.length * 4);
  });

  test('names a definition by the head of the SHA-256 of its content, so that a known definition is found', async () => {
    const agents = await createTestAgents(database.db, 2, { system: 'known "by" its\ncontent \\ é😀' });
    const runs = agents.map(({ id }) => ({
      ...aRun(id),
      client_tools: [aClientTool('ask')],
      result_format: { schema: { type: 'string' } },
    }));
    await accept(runs);
    const { rows } = await sql<{ is_known: boolean }>`
      select d.id = encode(substr(sha256(convert_to(json_build_array(d.project_id, d.agent_type, d.system, d.model,
        d.model_settings::text, d.tool_rules::text, d.tools::text, d.result_format::text, d.context_window_limit,
        d.compaction::text)::text || ' strict 1', 'UTF8')), 1, 16), 'hex')::uuid as is_known
      from definition d
    `.execute(database.db);
    expect(rows.length).toBeGreaterThan(0);
    expect(rows.every(({ is_known }) => is_known)).toBe(true);
    await accept(runs);
    const again = await sql`select from definition`.execute(database.db);
    expect(again.rows.length).toBe(rows.length);
  });

  test('appends input behind existing messages, and starts an empty conversation at one', async () => {
    const [one, two] = await createTestAgents(database.db, 2);
    await sql`
      insert into message (project_id, conversation_id, seq, role, content)
      values (${DEFAULT_PROJECT_ID}, ${one!.conversation_id}, 7, 'user', '[]')
    `.execute(database.db);
    const batch = await accept([aRun(two!.id, ['a', 'b']), aRun(one!.id, ['a', 'b'])]);
    const { rows } = await sql`
      select first_seq, last_seq from run where batch_id = ${batch.id} order by ordinal`.execute(database.db);
    expect(rows).toEqual([
      { first_seq: 1, last_seq: 2 },
      { first_seq: 8, last_seq: 9 },
    ]);
  });

  test('keeps input with NUL and lone surrogates verbatim and readable by SQL', async () => {
    const [agent] = await createTestAgents(database.db, 1);
    const text = 'a\u0000b\ud800c';
    const batch = await accept([aRun(agent!.id, [text]), aRun(agent!.id, [text])]);
    const message = await database.db
      .selectFrom('message')
      .select('content')
      .where('run_id', '=', batch.run_ids[0]!)
      .executeTakeFirstOrThrow();
    expect(JSON.parse(message.content as string)).toEqual([{ type: 'text', text }]);
    const { rows } = await sql<{ content: unknown }>`
      select m.content from queued_input q, json_to_recordset(q.messages) as m (content json)
      where q.run_id = ${batch.run_ids[1]!}`.execute(database.db);
    expect(JSON.parse(rows[0]!.content as string)).toEqual([{ type: 'text', text }]);
  });

  test('two batches with the same agents in opposite order do not deadlock, and start one run per agent', async () => {
    const agents = await createTestAgents(database.db, 50);
    const runs = agents.map((agent) => aRun(agent.id));
    const batches = await Promise.all([
      accept(runs),
      accept([...runs].reverse()),
      accept(runs),
      accept([...runs].reverse()),
    ]);
    expect(batches.reduce((sum, batch) => sum + batch.ready, 0)).toBe(50);
    expect(batches.reduce((sum, batch) => sum + batch.queued, 0)).toBe(150);
  });
});
