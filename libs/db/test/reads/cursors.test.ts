import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  acceptHeldChanges,
  auditInvariants,
  countNewMessages,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  inTransaction,
  listCursors,
  lockConversations,
  readCursors,
  rejectHeldChanges,
  resetMessages,
  revertBatch,
  rewindCursor,
  type Database,
  type HeldFilter,
  type NewAgent,
  type RewindTarget,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import {
  accept,
  acceptIn,
  end,
  hold,
  holdPassage,
  newTexts,
  NIGHTLY,
  night,
  read,
  say,
  sayIn,
  type Night,
} from '../cursor-nights.ts';
import { createTestAgents } from '../factories.ts';
import { gate, untilLockIsAwaited } from '../worker-commits/night-shift.ts';

let database: TestDatabase;
let db: Database;
let agent: NewAgent;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
});
afterAll(() => database.close());
beforeEach(async () => {
  [agent] = (await createTestAgents(db, 1, { tools: [] })) as [NewAgent];
});

const ALL: HeldFilter = { agent_ids: null, block_ids: null };
const acceptChanges = ({ batch_id }: Night, filter = ALL) =>
  inTransaction(db, (trx) => acceptHeldChanges(trx, DEFAULT_PROJECT_ID, batch_id, filter));
const rejectChanges = ({ batch_id }: Night, filter = ALL) =>
  inTransaction(db, (trx) => rejectHeldChanges(trx, DEFAULT_PROJECT_ID, batch_id, filter));
const revert = ({ batch_id }: Night) =>
  inTransaction(db, (trx) => revertBatch(trx, DEFAULT_PROJECT_ID, batch_id, false));
const rewind = (target: RewindTarget) =>
  inTransaction(db, (trx) => rewindCursor(trx, DEFAULT_PROJECT_ID, agent.id, NIGHTLY, target));
const reset = () => inTransaction(db, (trx) => resetMessages(trx, DEFAULT_PROJECT_ID, agent.id));
const positionOf = async (): Promise<number> => (await read(db, agent)).position;
const CURSOR_INVARIANTS = { among: (id: string) => id.startsWith('I25') };

describe('new messages', () => {
  test('are shown texts of users and the agent, in order', async () => {
    const said_at = '2026-11-01T10:00:00Z';
    await say(
      db,
      agent,
      ['hello', [{ type: 'text', text: 'two' }, { type: 'image' }, { type: 'text', text: 'parts' }]],
      {
        said_at,
      },
    );
    await say(db, agent, [[{ type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }]], {
      role: 'assistant',
    });
    await say(db, agent, [[{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'text' }], '']);
    await say(db, agent, ['a rule'], { role: 'system' });
    await say(db, agent, ['refused'], { role: 'assistant', shown: false });
    await say(db, agent, ['answer'], { role: 'assistant' });
    await say(db, agent, [[{ type: 'tool_use', id: 'toolu_2', name: 'look', input: {} }]], {
      role: 'assistant',
    });
    const { messages, ...place } = await read(db, agent);
    expect(place).toMatchObject({ position: 0, top_seq: 9, to_seq: 9, skip: null, is_cut: false });
    expect(messages).toEqual([
      { seq: 1, role: 'user', text: 'hello', at: new Date(said_at), name: null },
      { seq: 2, role: 'user', text: 'two\nparts', at: new Date(said_at), name: null },
      { seq: 8, role: 'assistant', text: 'answer', at: expect.any(Date) as Date, name: null },
    ]);
  });

  test('keep every character of contents that are stored wrapped', async () => {
    const json = JSON.stringify([{ type: 'text', text: 'nul \u0000 and ' }]).replace(
      ' and ',
      ' and \\ud83e\\udd89',
    );
    await sql`
      insert into message (project_id, conversation_id, seq, role, content)
      values (${DEFAULT_PROJECT_ID}, ${agent.conversation_id}, 1, 'user', ${JSON.stringify(json)}::json)
    `.execute(db);
    expect(await newTexts(db, agent)).toEqual(['nul \u0000 and 🦉']);
  });

  test('are none of a deleted or unknown agent, and its rows break no invariant', async () => {
    await say(db, agent, ['one']);
    await night(db, agent);
    await inTransaction(db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, agent.id));
    const { readings } = await readCursors(db, DEFAULT_PROJECT_ID, NIGHTLY, [agent.id]);
    expect(readings).toEqual(new Map());
    expect(await auditInvariants(db, CURSOR_INVARIANTS)).toEqual([]);
  });

  test('are none without messages, and none after messages without text', async () => {
    expect(await newTexts(db, agent)).toBe('nothing_new');
    await say(db, agent, ['']);
    expect(await newTexts(db, agent)).toBe('nothing_new');
  });

  test('are read in portions of bytes, oldest first, and none is left out or shown twice', async () => {
    const texts = Array.from({ length: 20 }, (_, index) => `${index} ${'x'.repeat(1_000)}`);
    await say(db, agent, texts);
    const seen: string[] = [];
    for (;;) {
      const reading = await read(db, agent, { bytes_max: 3_000 });
      if (reading.skip !== null) break;
      seen.push(...reading.messages.map(({ text }) => text));
      expect(reading.messages.length).toBeLessThanOrEqual(3);
      expect(reading.is_cut).toBe(seen.length < texts.length);
      await night(db, agent, 'end_turn', { to_seqs: [reading.to_seq] });
    }
    expect(seen).toEqual(texts);
  });

  test('are found behind any number of messages without text', async () => {
    await say(db, agent, Array<string>(25).fill(''));
    await say(db, agent, ['at last']);
    const bounds = { messages_max: 10 };
    const { messages, to_seq, is_cut } = await read(db, agent, bounds);
    expect([messages.map(({ text }) => text), to_seq, is_cut]).toEqual([['at last'], 26, false]);
    const counts = await countNewMessages(db, DEFAULT_PROJECT_ID, NIGHTLY, [agent.id], bounds);
    expect(counts.get(agent.id)).toMatchObject({ new_messages: 1, new_bytes: 7, skip: null });
  });

  test('are counted, also behind a skip', async () => {
    await say(db, agent, ['one', 'two']);
    await accept(db, agent);
    const counts = await countNewMessages(db, DEFAULT_PROJECT_ID, NIGHTLY, [agent.id], { messages_max: 1 });
    expect(counts.get(agent.id)).toMatchObject({
      new_messages: 1,
      new_bytes: 3,
      skip: 'under_way',
      is_cut: true,
    });
  });
});

describe('a cursor', () => {
  test.each(['end_turn', 'tool_rule'])('moves when its run ends as %s', async (reason) => {
    await say(db, agent, ['one', 'two', '']);
    const first = await accept(db, agent);
    expect(await newTexts(db, agent)).toBe('under_way');
    expect(await accept(db, agent)).toBeNull();
    await end(db, first!, [reason]);
    expect(await read(db, agent)).toMatchObject({ skip: 'nothing_new', position: 3 });
    await say(db, agent, ['three']);
    expect(await newTexts(db, agent)).toEqual(['three']);
  });

  test.each([
    'max_steps',
    'max_tokens',
    'refusal',
    'provider_error',
    'cancelled',
    'budget_exceeded',
    'deadline',
  ])('stays when its run ends as %s', async (reason) => {
    await say(db, agent, ['one']);
    await night(db, agent, reason);
    expect(await newTexts(db, agent)).toEqual(['one']);
  });

  test('of another name is independent', async () => {
    await say(db, agent, ['one']);
    await night(db, agent);
    const { readings } = await readCursors(db, DEFAULT_PROJECT_ID, 'weekly', [agent.id]);
    expect(readings.get(agent.id)?.messages).toHaveLength(1);
  });

  test('moves to the end of the last part that ended well', async () => {
    await say(db, agent, ['one', 'two', 'three']);
    const parts = await accept(db, agent, { to_seqs: [1, 2, 3] });
    await end(db, parts!, ['end_turn', null, null]);
    expect(await newTexts(db, agent)).toBe('under_way');
    await end(db, parts!, ['end_turn', 'max_steps', 'cancelled']);
    expect(await newTexts(db, agent)).toEqual(['two', 'three']);
    await night(db, agent);
    expect(await positionOf()).toBe(3);
    expect(await auditInvariants(db, CURSOR_INVARIANTS)).toEqual([]);
  });
});

describe('under review a cursor', () => {
  const review = async (labels: readonly string[], reason = 'end_turn') => {
    await say(db, agent, ['one']);
    const held = await accept(db, agent, { apply: 'review' });
    const blocks = await hold(db, agent, held!, labels);
    await end(db, held!, [reason]);
    return { held: held!, blocks };
  };

  test('waits for the review and moves when all is accepted', async () => {
    const { held } = await review(['a', 'b']);
    expect(await newTexts(db, agent)).toBe('in_review');
    await acceptChanges(held);
    expect(await newTexts(db, agent)).toBe('nothing_new');
    expect(await auditInvariants(db, CURSOR_INVARIANTS)).toEqual([]);
  });

  test('stays when all is rejected, which is no failure', async () => {
    for (let times = 0; times < 4; times++) {
      const { held } = await review([`a${times}`]);
      await rejectChanges(held);
      expect(await newTexts(db, agent)).toHaveLength(times + 1);
    }
    expect(await positionOf()).toBe(0);
  });

  test('moves when one of its changes is accepted and the others are rejected, in that order or the other', async () => {
    for (const [which, other] of [
      [0, 1],
      [1, 0],
    ] as const) {
      const { held, blocks } = await review([`a${which}`, `b${which}`]);
      const position = await positionOf();
      const settle = [acceptChanges, rejectChanges] as const;
      await settle[which](held, { agent_ids: null, block_ids: [blocks[which]!] });
      expect(await newTexts(db, agent)).toBe('in_review');
      await settle[other](held, { agent_ids: null, block_ids: [blocks[other]!] });
      expect(await positionOf()).toBe(position + 1);
    }
  });

  test('moves at its end when nothing is held', async () => {
    await review([]);
    expect(await newTexts(db, agent)).toBe('nothing_new');
  });

  test('stays when its run did not end well, whatever is accepted', async () => {
    const { held } = await review(['a'], 'max_steps');
    // Held changes are in review, whatever the end of their run.
    expect(await newTexts(db, agent)).toBe('in_review');
    await acceptChanges(held);
    expect(await newTexts(db, agent)).toEqual(['one']);
  });

  test('waits for held passages; it moves when they are accepted and stays when they are rejected', async () => {
    await say(db, agent, ['one']);
    const passages = async () => {
      const held = await accept(db, agent, { apply: 'review' });
      await holdPassage(db, agent, held!);
      await end(db, held!);
      expect(await newTexts(db, agent)).toBe('in_review');
      return held!;
    };
    await rejectChanges(await passages());
    expect(await newTexts(db, agent)).toEqual(['one']);
    await acceptChanges(await passages());
    expect(await newTexts(db, agent)).toBe('nothing_new');
  });

  test('moves when its passages are accepted and a change is rejected', async () => {
    await say(db, agent, ['one']);
    const held = await accept(db, agent, { apply: 'review' });
    const [block] = await hold(db, agent, held!, ['a']);
    await holdPassage(db, agent, held!);
    await end(db, held!);
    await sql`update block_revision set value = 'mine' where block_id = ${block}`.execute(db);
    await sql`insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on)
      select block_id, 2, project_id, 'theirs', 100, false, 1 from block_revision where block_id = ${block}`.execute(
      db,
    );
    await sql`update block set head_revision = 2 where id = ${block}`.execute(db);
    expect(await acceptChanges(held!)).toMatchObject({ accepted: 0, passages: 1, stale: [{}] });
    expect(await newTexts(db, agent)).toBe('in_review');
    await rejectChanges(held!);
    expect(await newTexts(db, agent)).toBe('nothing_new');
  });

  test('goes back when its batch is reverted, and not when a later run moved it on', async () => {
    const { held } = await review(['a']);
    await acceptChanges(held);
    expect(await revert(held)).toMatchObject({ restored: [{ label: 'a' }] });
    expect(await newTexts(db, agent)).toEqual(['one']);
    const again = await review(['b']);
    await acceptChanges(again.held);
    await say(db, agent, ['two']);
    await night(db, agent);
    expect(await revert(again.held)).toMatchObject({ restored: [{ label: 'b' }] });
    expect(await newTexts(db, agent)).toBe('nothing_new');
    expect(await auditInvariants(db, CURSOR_INVARIANTS)).toEqual([]);
  });

  test('stays when a revert of its batch restores only other agents', async () => {
    const [other] = (await createTestAgents(db, 1, { tools: [] })) as [NewAgent];
    await say(db, agent, ['one']);
    const own = await night(db, agent);
    await say(db, other, ['one']);
    const theirs = await accept(db, other, { apply: 'review' });
    await hold(db, other, theirs!, ['a']);
    await end(db, theirs!);
    await acceptChanges(theirs!);
    await sql`update run set batch_id = ${theirs!.batch_id}, ordinal = 1 where batch_id = ${own.batch_id}`.execute(
      db,
    );
    await sql`update cursor_span set batch_id = ${theirs!.batch_id} where batch_id = ${own.batch_id}`.execute(
      db,
    );
    await revert(theirs!);
    expect([await newTexts(db, agent), await newTexts(db, other)]).toEqual(['nothing_new', ['one']]);
  });
});

describe('after three failures from one place', () => {
  const fail = async (times: number, reason = 'provider_error') => {
    for (let time = 0; time < times; time++) await night(db, agent, reason);
  };

  test('an agent is skipped until something new arrives', async () => {
    await say(db, agent, ['one']);
    await fail(2);
    expect(await newTexts(db, agent)).toEqual(['one']);
    await fail(1);
    expect(await newTexts(db, agent)).toBe('failing');
    await say(db, agent, ['']);
    expect(await newTexts(db, agent)).toBe('failing');
    await say(db, agent, ['two']);
    expect(await newTexts(db, agent)).toEqual(['one', 'two']);
    await fail(1);
    expect(await newTexts(db, agent)).toBe('failing');
  });

  test('an agent with more than a batch can show is skipped too', async () => {
    await say(db, agent, ['one', 'two', 'three']);
    for (let time = 0; time < 3; time++) {
      const parts = await accept(db, agent, { to_seqs: [1, 2] });
      await end(db, parts!, ['max_steps', 'cancelled']);
    }
    expect(await newTexts(db, agent)).toBe('failing');
  });

  test('a cancel or another place ends the row', async () => {
    await say(db, agent, ['one', 'two']);
    await fail(2);
    await fail(1, 'cancelled');
    await fail(1);
    expect(await newTexts(db, agent)).toEqual(['one', 'two']);
    const parts = await accept(db, agent, { to_seqs: [1, 2] });
    await end(db, parts!, ['end_turn', 'max_steps']);
    expect(await newTexts(db, agent)).toEqual(['two']);
  });

  test('a rewind starts anew', async () => {
    await say(db, agent, ['one']);
    await fail(3);
    await rewind({ seq: 0 });
    expect(await newTexts(db, agent)).toEqual(['one']);
  });
});

describe('a reset', () => {
  test('leaves only later messages new, and an open run of before is under way', async () => {
    await say(db, agent, ['one']);
    const open = await accept(db, agent);
    await reset();
    await say(db, agent, ['two']);
    expect(await newTexts(db, agent)).toBe('under_way');
    await end(db, open!, ['max_steps']);
    expect(await read(db, agent)).toMatchObject({ position: 1, messages: [{ text: 'two' }] });
    await night(db, agent);
    expect(await positionOf()).toBe(2);
    expect(await auditInvariants(db, CURSOR_INVARIANTS)).toEqual([]);
  });
});

describe('a rewind', () => {
  test('moves a cursor in either direction, and runs of before no longer count', async () => {
    await say(db, agent, ['one', 'two', 'three']);
    await night(db, agent);
    await rewind({ seq: 1 });
    expect(await newTexts(db, agent)).toEqual(['two', 'three']);
    await night(db, agent);
    expect(await newTexts(db, agent)).toBe('nothing_new');
    await rewind({ seq: 0 });
    expect(await newTexts(db, agent)).toEqual(['one', 'two', 'three']);
    await rewind({ seq: 2 });
    expect(await newTexts(db, agent)).toEqual(['three']);
    expect(await auditInvariants(db, CURSOR_INVARIANTS)).toEqual([]);
  });

  test('to a moment makes every message since then new', async () => {
    await say(db, agent, ['old'], { said_at: '2026-11-01T00:00:00Z' });
    await say(db, agent, ['new'], { said_at: '2026-11-03T00:00:00Z' });
    await say(db, agent, ['late'], { said_at: '2026-11-02T00:00:00Z' });
    await rewind({ before: '2026-11-02T12:00:00Z' });
    expect(await newTexts(db, agent)).toEqual(['new', 'late']);
    await rewind({ before: '2026-11-02T00:00:00+00:00' });
    expect(await newTexts(db, agent)).toEqual(['new', 'late']);
    await rewind({ before: '2026-12-01T00:00:00Z' });
    expect(await newTexts(db, agent)).toBe('nothing_new');
  });

  test('waits for open runs and held changes', async () => {
    await say(db, agent, ['one']);
    const open = await accept(db, agent, { apply: 'review' });
    await expect(rewind({ seq: 0 })).rejects.toMatchObject({ code: 'conflict' });
    await hold(db, agent, open!, ['a']);
    await end(db, open!);
    await expect(rewind({ seq: 0 })).rejects.toMatchObject({ code: 'conflict' });
    await rejectChanges(open!);
    await rewind({ seq: 0 });
    expect(await newTexts(db, agent)).toEqual(['one']);
  });

  test('of an unknown agent is refused', async () => {
    await inTransaction(db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, agent.id));
    await expect(rewind({ seq: 0 })).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('beside each other', () => {
  test('two accepts of an agent give its messages to one run', async () => {
    await say(db, agent, ['one']);
    const [accepted, commit] = [gate(), gate()];
    const one = inTransaction(db, async (trx) => {
      await lockConversations(trx, [agent.conversation_id]);
      const first = await acceptIn(trx, agent);
      accepted.open();
      await commit.opened;
      return first;
    });
    await accepted.opened;
    const two = accept(db, agent);
    await untilLockIsAwaited(db);
    commit.open();
    expect([(await one)?.run_ids, await two]).toEqual([[expect.any(String)], null]);
    expect(await newTexts(db, agent)).toBe('under_way');
  });

  test('an append that commits late is not overtaken', async () => {
    await say(db, agent, ['one']);
    const [locked, commit] = [gate(), gate()];
    const appending = inTransaction(db, async (trx) => {
      await lockConversations(trx, [agent.conversation_id]);
      await sayIn(trx, agent, ['late']);
      locked.open();
      await commit.opened;
    });
    await locked.opened;
    const accepting = accept(db, agent);
    await untilLockIsAwaited(db);
    commit.open();
    await appending;
    await end(db, (await accepting)!);
    expect(await read(db, agent)).toMatchObject({ skip: 'nothing_new', position: 2 });
    await say(db, agent, ['next']);
    expect(await newTexts(db, agent)).toEqual(['next']);
  });

  test('what is appended while a run reads is new in the next', async () => {
    await say(db, agent, ['one']);
    const open = await accept(db, agent);
    await say(db, agent, ['two']);
    await end(db, open!);
    expect(await newTexts(db, agent)).toEqual(['two']);
  });
});

test('the cursors of an agent are listed by name with their last runs', async () => {
  await say(db, agent, ['one', 'two'], { said_at: '2026-11-01T10:00:00Z' });
  const failed = await night(db, agent, 'max_steps');
  await inTransaction(db, (trx) => rewindCursor(trx, DEFAULT_PROJECT_ID, agent.id, 'archive', { seq: 2 }));
  const last = await accept(db, agent, { to_seqs: [1] });
  expect(last).not.toEqual(failed);
  const cursors = await listCursors(db, DEFAULT_PROJECT_ID, agent.id);
  expect(cursors).toMatchObject([
    {
      name: 'archive',
      position: 2,
      new_messages: 0,
      skip: 'nothing_new',
      last_run_id: null,
      position_at: new Date('2026-11-01T10:00:00Z'),
    },
    {
      name: NIGHTLY,
      position: 0,
      new_messages: 2,
      skip: 'under_way',
      last_batch_id: last!.batch_id,
      position_at: null,
      rewound_at: null,
    },
  ]);
  expect(await listCursors(db, DEFAULT_PROJECT_ID, agent.id, 'archive')).toHaveLength(1);
});
