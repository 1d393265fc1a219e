import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  appendMessages,
  auditInvariants,
  claimDueBatches,
  claimToolsChunk,
  commitDecisions,
  commitRunsCancelled,
  commitWaitingRunsStarted,
  createAgents,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  holdLease,
  inTransaction,
  listConversationMessages,
  newId,
  readSealedRequests,
  requestBatchCancel,
  resetMessages,
  type NewAppendedMessage,
  type AppendItem,
  type Database,
  type NewAgent,
} from '../../src/index.ts';
import { passConversationsOn } from '../../src/commits/run/pass-conversations.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { anAgent, aRun, createTestAgents } from '../factories.ts';
import { explain, leaveUncounted, nodesOf } from '../plans.ts';
import {
  accept,
  act,
  ALICE,
  callsTools,
  decide,
  DONE,
  gate,
  ingest,
  leaseOf,
  sealAndEnd,
  untilLockIsAwaited,
} from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
let agent: NewAgent;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(async () => {
  [agent] = (await createTestAgents(db, 1)) as [NewAgent];
});
afterEach(async () => {
  expect(await auditInvariants(db)).toEqual([]);
  await sql`truncate batch, run, ended_runs, run_failure, provider_batch, run_chunk, step, message, waiting_message, tool_call cascade`.execute(
    db,
  );
  await sql`update conversation set run_id = null, context_from_seq = 0, reset_seq = 0`.execute(db);
});

const said = (text: string, rest: Partial<NewAppendedMessage> = {}): NewAppendedMessage => ({
  role: 'user',
  content: [{ type: 'text', text }],
  otid: null,
  name: null,
  said_at: null,
  ...rest,
});
const to = (messages: readonly NewAppendedMessage[], whom = agent, path = ''): AppendItem => ({
  agent_id: whom.id,
  path,
  messages,
});
const append = (...items: readonly AppendItem[]) =>
  inTransaction(db, (trx) => appendMessages(trx, DEFAULT_PROJECT_ID, items));
const say = (...texts: readonly string[]) => append(to(texts.map((text) => said(text))));

/** The texts of a conversation in order; `+` marks appended messages. */
async function textsOf(whom = agent): Promise<readonly string[]> {
  const { rows } = await listConversationMessages(db, whom.conversation_id, {
    limit: 1_000,
    above: null,
    below: null,
    from: 'oldest',
  });
  return rows.map(({ run_id, content: [first] }) => {
    const text = first?.type === 'text' ? (first['text'] as string) : (first?.type ?? '');
    return run_id === null ? `+${text}` : text;
  });
}

async function countWaiting(): Promise<number> {
  return (await db.selectFrom('waiting_message').select('place').execute()).length;
}

describe('appended messages', () => {
  test('enter a free conversation in order, without a run, with their time and names', async () => {
    const report = await append(
      to([
        said('one', { role: 'assistant', name: 'Ada', otid: 'o-1', said_at: '2026-03-01T10:00:00+01:00' }),
      ]),
      to([said('two', { role: 'system' })]),
      to([said('a\u0000b\ud800')]),
    );
    expect(report).toEqual({ appended: 3, repeated: 0, waiting: 0 });
    expect(await say('four')).toEqual({ appended: 1, repeated: 0, waiting: 0 });
    const rows = await db.selectFrom('message').selectAll().orderBy('seq').execute();
    expect(
      rows.map(({ seq, run_id, step_number, role, shown }) => [seq, run_id, step_number, role, shown]),
    ).toEqual([
      [1, null, null, 'assistant', true],
      [2, null, null, 'system', true],
      [3, null, null, 'user', true],
      [4, null, null, 'user', true],
    ]);
    expect(rows[0]).toMatchObject({ name: 'Ada', otid: 'o-1', said_at: new Date('2026-03-01T09:00:00Z') });
    expect(await textsOf()).toEqual(['+one', '+two', '+a\u0000b\ud800', '+four']);
  });

  test('come before the input of a later run, and behind the messages of an earlier one', async () => {
    await say('one');
    await accept(db, [aRun(agent.id, ['two'])]);
    await ingest(db, await sealAndEnd(db), DONE);
    await say('three');
    await accept(db, [aRun(agent.id, ['four'])]);
    const lease = await sealAndEnd(db);
    const [request] = await readSealedRequests(db, lease.id, 0, 1);
    expect(JSON.parse(request!.messages_json)).toHaveLength(5);
    await ingest(db, lease, DONE);
    expect(await textsOf()).toEqual(['+one', 'two', 'Done.', '+three', 'four', 'Done.']);
  });

  test('of a deleted or unknown agent name their item and store nothing', async () => {
    const [gone] = await createTestAgents(db, 1);
    await inTransaction(db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, gone!.id));
    const stranger = anAgent();
    const refused = append(
      to([said('a')], agent, '/items/0'),
      to([said('b')], gone, '/items/1'),
      to([said('c')], stranger, '/items/2'),
    );
    await expect(refused).rejects.toMatchObject({
      code: 'not_found',
      fields: [{ path: '/items/1/agent_id' }, { path: '/items/2/agent_id' }],
    });
    await expect(append(to([said('c')], stranger))).rejects.toMatchObject({
      code: 'not_found',
      fields: [{ path: 'agent_id' }],
    });
    expect(await textsOf()).toEqual([]);
  });

  test('find an agent deleted while they waited for its conversation', async () => {
    const [deleted, committed] = [gate(), gate()];
    const deletion = inTransaction(db, async (trx) => {
      await deleteAgent(trx, DEFAULT_PROJECT_ID, agent.id);
      deleted.open();
      await committed.opened;
    });
    await deleted.opened;
    const refused = expect(say('late')).rejects.toMatchObject({ code: 'not_found' });
    await untilLockIsAwaited(db);
    committed.open();
    await deletion;
    await refused;
  });

  test('beyond the greatest number of a conversation are refused', async () => {
    await sql`insert into message (project_id, conversation_id, seq, role, content)
      values (${DEFAULT_PROJECT_ID}, ${agent.conversation_id}, 15999999, 'user', '[]')`.execute(db);
    await expect(append(to([said('a'), said('b')], agent, '/items/4'))).rejects.toMatchObject({
      code: 'conflict',
      fields: [{ path: '/items/4/messages/1' }],
    });
    expect(await say('last')).toMatchObject({ appended: 1 });
    await sql`delete from message`.execute(db);
  });

  test('before a reset are hidden by it, and a later one enters behind', async () => {
    await say('one');
    await inTransaction(db, (trx) => resetMessages(trx, DEFAULT_PROJECT_ID, agent.id));
    await say('two');
    await accept(db, [aRun(agent.id, ['three'])]);
    const [request] = await readSealedRequests(db, (await sealAndEnd(db)).id, 0, 1);
    expect(JSON.parse(request!.messages_json)).toMatchObject([
      { content: [{ text: 'two' }] },
      { content: [{ text: 'three' }] },
    ]);
  });
});

describe('a repeated otid', () => {
  const message = said('x', { otid: 'o', name: 'Ada', said_at: '2026-01-01T00:00:00Z' });

  test('changes nothing and is counted: stored, waiting, or in the same request', async () => {
    expect(await append(to([message, said('y'), message]))).toEqual({ appended: 2, repeated: 1, waiting: 0 });
    expect(await append(to([{ ...message, said_at: '2026-01-01T01:00:00+01:00' }]))).toMatchObject({
      appended: 0,
      repeated: 1,
    });
    await accept(db, [aRun(agent.id)]);
    const next = said('z', { otid: 'p' });
    expect(await append(to([message, next]))).toEqual({ appended: 0, repeated: 1, waiting: 1 });
    expect(await append(to([message, next]))).toEqual({ appended: 0, repeated: 2, waiting: 0 });
    await ingest(db, await sealAndEnd(db), DONE);
    expect(await append(to([next, message]))).toEqual({ appended: 0, repeated: 2, waiting: 0 });
    expect(await textsOf()).toEqual(['+x', '+y', 'go', 'Done.', '+z']);
  });

  test('is free for another agent, and the inputs of runs do not take it', async () => {
    const [other] = await createTestAgents(db, 1);
    const run = aRun(agent.id);
    await accept(db, [{ ...run, messages: [{ ...run.messages[0]!, otid: 'o' }] }]);
    await ingest(db, await sealAndEnd(db), DONE);
    expect(await append(to([message]), to([{ ...message, role: 'assistant' }], other))).toMatchObject({
      appended: 2,
    });
  });

  test.each([
    ['role', { role: 'assistant' }],
    ['content', { content: [{ type: 'text', text: 'x ' }] }],
    ['name', { name: null }],
    ['said_at', { said_at: null }],
    ['said_at', { said_at: '2026-01-01T00:00:00.001Z' }],
  ] as const)('with another %s is refused, and nothing is stored', async (field, change) => {
    const other = { ...message, ...change };
    await expect(append(to([said('a'), message, other], agent, '/items/0'))).rejects.toMatchObject({
      code: 'conflict',
      fields: [{ path: `/items/0/messages/2/${field}` }],
    });
    await append(to([message]));
    const refusal = { code: 'conflict', fields: [{ path: `/messages/1/${field}` }] };
    await expect(append(to([said('a'), other]))).rejects.toMatchObject(refusal);
    await expect(append(to([said('a'), other]))).rejects.toThrow('"o"');
    await accept(db, [aRun(agent.id)]);
    await append(to([{ ...message, otid: 'w' }]));
    await expect(append(to([said('a'), { ...other, otid: 'w' }]))).rejects.toMatchObject(refusal);
    expect(await textsOf()).toEqual(['+x', 'go']);
    expect(await countWaiting()).toBe(1);
  });
});

describe('messages that arrive while a run holds the conversation', () => {
  test('wait for its end and enter before the next input; calls keep their results', async () => {
    const first = await accept(db, [aRun(agent.id, ['a'])]);
    await accept(db, [aRun(agent.id, ['b'])]);
    const arrive = async (text: string) =>
      expect(await say(text)).toEqual({ appended: 0, repeated: 0, waiting: 1 });
    await arrive('1');
    for (const step of [2, 4]) {
      const lease = await sealAndEnd(db);
      await arrive(`${step}`);
      await ingest(db, lease, callsTools(2));
      await arrive(`${step + 1}`);
      await act(db, (await claimToolsChunk(db, ALICE))!);
    }
    const lease = await sealAndEnd(db);
    const [request] = await readSealedRequests(db, lease.id, 0, 1);
    expect(JSON.parse(request!.messages_json)).toHaveLength(5);
    await arrive('6');
    expect(await countWaiting()).toBe(6);
    await ingest(db, lease, DONE);
    expect(await textsOf()).toEqual([
      ...['a', 'tool_use', 'tool_result', 'tool_use', 'tool_result', 'Done.'],
      ...['+1', '+2', '+3', '+4', '+5', '+6', 'b'],
    ]);
    expect(await countWaiting()).toBe(0);
    const run = await db
      .selectFrom('run')
      .select(['first_seq', 'last_seq'])
      .where('id', '=', first.run_ids[0]!)
      .executeTakeFirst();
    expect(run).toEqual({ first_seq: 1, last_seq: 6 });
    expect(await say('c')).toMatchObject({ waiting: 1 });
    await ingest(db, await sealAndEnd(db), DONE);
    expect((await textsOf()).slice(-2)).toEqual(['Done.', '+c']);
  });

  test('enter when no run follows, of many agents at once', async () => {
    const agents = await createTestAgents(db, 3);
    await accept(
      db,
      agents.map(({ id }) => aRun(id)),
    );
    await append(...[agents[0]!, agents[2]!].map((whom) => to([said('x'), said('y')], whom)));
    await ingest(db, await sealAndEnd(db), DONE);
    const done = ['go', 'Done.'];
    expect(await Promise.all(agents.map(textsOf))).toEqual([
      [...done, '+x', '+y'],
      done,
      [...done, '+x', '+y'],
    ]);
  });

  test('keep the order of arrival, their time and their otid', async () => {
    await accept(db, [aRun(agent.id)]);
    await append(
      to([said('x', { otid: 'o', name: 'Ada', role: 'assistant', said_at: '2026-01-01T00:00:00Z' })]),
    );
    const { created_at } = await db
      .selectFrom('waiting_message')
      .select('created_at')
      .executeTakeFirstOrThrow();
    await ingest(db, await sealAndEnd(db), DONE);
    const rows = await db.selectFrom('message').selectAll().where('run_id', 'is', null).execute();
    expect(rows).toMatchObject([
      {
        seq: 3,
        otid: 'o',
        name: 'Ada',
        role: 'assistant',
        said_at: new Date('2026-01-01T00:00:00Z'),
        created_at,
      },
    ]);
  });

  test('enter when the run is cancelled', async () => {
    const batch = await accept(db, [aRun(agent.id), aRun(agent.id)]);
    await say('x');
    await inTransaction(db, (trx) => requestBatchCancel(trx, DEFAULT_PROJECT_ID, batch.id));
    const [claimed] = await claimDueBatches(db, ['cancelling'], 10, ALICE);
    const lease = leaseOf('batch', claimed!);
    await inTransaction(db, async (trx) => {
      await holdLease(trx, lease);
      return commitRunsCancelled(trx, lease, { from_ordinal: 0, limit: 10 }, 0);
    });
    expect(await textsOf()).toEqual(['go', '+x']);
  });

  test('enter a conversation whose next run is locked, and that run starts behind them', async () => {
    const first = await accept(db, [aRun(agent.id, ['a'])]);
    const second = await accept(db, [aRun(agent.id, ['b'])]);
    await say('x');
    const lease = await sealAndEnd(db);
    const [locked, released] = [gate(), gate()];
    const other = inTransaction(db, async (trx) => {
      await sql`select from run where id = ${second.run_ids[0]!} for update`.execute(trx);
      locked.open();
      await released.opened;
    });
    await locked.opened;
    await ingest(db, lease, DONE, { run_ids: first.run_ids });
    released.open();
    await other;
    expect(await say('y')).toMatchObject({ appended: 1 });
    await inTransaction(db, (trx) => commitWaitingRunsStarted(trx, 10));
    expect(await textsOf()).toEqual(['a', 'Done.', '+x', '+y', 'b']);
  });

  test('leave a reset refused, as the run does', async () => {
    await accept(db, [aRun(agent.id)]);
    await say('x');
    const reset = inTransaction(db, (trx) => resetMessages(trx, DEFAULT_PROJECT_ID, agent.id));
    await expect(reset).rejects.toMatchObject({ code: 'conflict' });
    expect(await countWaiting()).toBe(1);
  });

  test('enter although the agent was deleted meanwhile', async () => {
    await accept(db, [aRun(agent.id)]);
    await say('x');
    await inTransaction(db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, agent.id));
    await ingest(db, await sealAndEnd(db), DONE);
    expect(await textsOf()).toEqual(['go', 'Done.', '+x']);
  });

  test('are not cleared with the message buffer of an agent that clears it', async () => {
    const clearing = anAgent({ message_buffer_autoclear: true });
    await inTransaction(db, (trx) => createAgents(trx, DEFAULT_PROJECT_ID, [clearing]));
    await accept(db, [aRun(clearing.id), aRun(clearing.id, ['next'])]);
    await append(to([said('x')], clearing));
    await ingest(db, await sealAndEnd(db), DONE);
    const [request] = await readSealedRequests(db, (await sealAndEnd(db)).id, 0, 1);
    expect(JSON.parse(request!.messages_json)).toMatchObject([
      { content: [{ text: 'x' }] },
      { content: [{ text: 'next' }] },
    ]);
  });
});

describe('an append beside the end of a run', () => {
  test('that comes first is found by the end', async () => {
    await accept(db, [aRun(agent.id, ['a']), aRun(agent.id, ['b'])]);
    const lease = await sealAndEnd(db);
    const [appended, committed] = [gate(), gate()];
    const appending = inTransaction(db, async (trx) => {
      const report = await appendMessages(trx, DEFAULT_PROJECT_ID, [to([said('x')])]);
      appended.open();
      await committed.opened;
      return report;
    });
    await appended.opened;
    const ending = ingest(db, lease, DONE);
    await untilLockIsAwaited(db);
    committed.open();
    expect(await appending).toMatchObject({ waiting: 1 });
    await ending;
    expect(await textsOf()).toEqual(['a', 'Done.', '+x', 'b']);
  });

  test('that comes second finds the conversation free', async () => {
    const { run_ids } = await accept(db, [aRun(agent.id, ['a'])]);
    const lease = await sealAndEnd(db);
    const decided = await decide(db, new Map([[run_ids[0]!, DONE]]));
    const [ended, committed] = [gate(), gate()];
    const ending = inTransaction(db, async (trx) => {
      await holdLease(trx, lease);
      await commitDecisions(trx, decided);
      ended.open();
      await committed.opened;
    });
    await ended.opened;
    const appending = say('x');
    await untilLockIsAwaited(db);
    committed.open();
    await ending;
    expect(await appending).toEqual({ appended: 1, repeated: 0, waiting: 0 });
    expect(await textsOf()).toEqual(['a', 'Done.', '+x']);
  });

  test('in any order loses none', async () => {
    const agents = await createTestAgents(db, 20);
    await accept(
      db,
      agents.flatMap(({ id }) => [aRun(id, ['a']), aRun(id, ['b'])]),
    );
    const lease = await sealAndEnd(db);
    const appends = Array.from({ length: 8 }, (_, index) =>
      append(
        ...(index % 2 === 0 ? agents : [...agents].reverse()).map((whom) =>
          to([said(`${index}`, { otid: `${index}` })], whom),
        ),
      ),
    );
    await Promise.all([...appends, ingest(db, lease, DONE)]);
    await ingest(db, await sealAndEnd(db), DONE);
    for (const whom of agents) {
      const texts = await textsOf(whom);
      expect(texts.filter((text) => text.startsWith('+')).sort()).toEqual(
        Array.from({ length: 8 }, (_, index) => `+${index}`),
      );
      expect(texts.slice(0, 2)).toEqual(['a', 'Done.']);
      expect(texts.indexOf('b')).toBe(texts.lastIndexOf('Done.') - 1);
    }
  });
});

describe('many messages', () => {
  const MESSAGES = 100_000;

  test('of many agents are stored by few statements, and their repeats found by the index', async () => {
    await leaveUncounted(db, ['conversation', 'message', 'waiting_message', 'agent']);
    const agents = Array.from({ length: 2_000 }, () => anAgent());
    await inTransaction(db, (trx) => createAgents(trx, DEFAULT_PROJECT_ID, agents));
    const busy = agents.slice(0, agents.length / 2);
    const { run_ids } = await accept(
      db,
      busy.map(({ id }) => aRun(id)),
    );
    const items = agents.map((whom) =>
      to(
        Array.from({ length: MESSAGES / agents.length }, (_, index) => said(`m${index}`, { otid: newId() })),
        whom,
      ),
    );
    const plans = await explain(database.url, async (trx) => {
      const half = { appended: MESSAGES / 2, repeated: 0, waiting: MESSAGES / 2 };
      expect(await appendMessages(trx, DEFAULT_PROJECT_ID, items)).toEqual(half);
      const repeats = { appended: 0, repeated: MESSAGES, waiting: 0 };
      expect(await appendMessages(trx, DEFAULT_PROJECT_ID, items)).toEqual(repeats);
      const ended = busy.slice(0, 100).map(({ conversation_id }) => conversation_id);
      await passConversationsOn(trx, ended, run_ids.slice(0, 100));
      const left = await trx
        .selectFrom('waiting_message')
        .select(trx.fn.countAll<number>().as('count'))
        .execute();
      expect(left).toEqual([{ count: (MESSAGES / 2) * 0.9 }]);
    });
    expect(plans.length).toBeLessThan(90);
    const scanned = plans
      .filter(({ statement }) => !statement.startsWith('select count'))
      .flatMap(({ plan }) => [...nodesOf(plan)])
      .filter((node) => node['Node Type'] === 'Seq Scan')
      .map((node) => node['Relation Name']);
    expect(scanned).not.toContain('message');
    expect(scanned).not.toContain('waiting_message');
  });
});
