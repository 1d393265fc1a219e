import type {} from '../../../../test/global-setup.ts';
import {
  attachBlock,
  auditInvariants,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  deleteBlock,
  inTransaction,
} from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { call, openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  worker = house.worker();
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

/** Reads the blocks of an agent as its next request shows them. */
const blocksOf = (agentId: string | undefined) =>
  house.rows<{ label: string; value: string; description: string | null; revision: number }>(
    `select b.label, r.value, r.description, r.revision from agent_block k join block b on b.id = k.block_id
       join block_revision r on r.block_id = b.id and r.revision = b.head_revision
      where k.agent_id = $1 and k.label = b.label order by k.position`,
    [agentId],
  );

/** Reads the state of each call of a batch, in order, by run. */
const callsOf = async (batch: SubmittedBatch): Promise<string[]> =>
  (
    await house.rows<{ state: string }>(
      `select c.state from tool_call c join run r on r.id = c.run_id
        where r.batch_id = $1 order by r.ordinal, c.step_number, c.call_index`,
      [batch.id],
    )
  ).map((row) => row.state);

async function resultsOf(batch: SubmittedBatch, index = 0): Promise<readonly string[]> {
  const rows = await house.rows<{ content: { type: string; content?: unknown }[] }>(
    "select content from message where run_id = $1 and role = 'user' order by seq",
    [batch.run_ids[index]],
  );
  return rows
    .flatMap((row) => row.content)
    .filter((part) => part.type === 'tool_result')
    .map((part) => JSON.stringify(part.content));
}

/** Whether a statement, or a commit, waits for another transaction. */
const isTransactionWaiting = async (): Promise<boolean> =>
  (
    await house.rows(
      `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
    )
  ).length > 0;

const memory = (args: Readonly<Record<string, unknown>>, parallel = false) => call('memory', args, parallel);

describe('blocks that a tool creates, detaches, renames and describes', () => {
  test('are stored, attached and found again under their label, slashes included', async () => {
    const batch = await house.submit([
      {
        input: [
          memory({ command: 'create', path: '/memories/a/b', description: 'of b', file_text: 'x' }),
          memory({ command: 'str_replace', path: '/memories/a/b', old_string: 'x', new_string: 'y' }),
          memory({ command: 'create', path: '/memories/c', description: 'of c' }),
          memory({ command: 'delete', path: 'a/b' }),
          call('memory_rethink', { label: 'd', new_memory: 'made by a rewrite' }),
        ].join('\n'),
        blocks: { notes: 'n' },
        tools: ['memory', 'memory_rethink'],
      },
    ]);
    await house.drive(worker);
    expect(await callsOf(batch)).toEqual(Array.from({ length: 5 }, () => 'succeeded'));
    expect(await blocksOf(batch.agent_ids[0])).toEqual([
      { label: 'notes', value: 'n', description: null, revision: 1 },
      { label: 'c', value: '', description: 'of c', revision: 1 },
      { label: 'd', value: 'made by a rewrite', description: null, revision: 1 },
    ]);
    // A detached block keeps its text and its history, each write with its writer.
    expect(
      await house.rows(
        `select r.revision, r.value, r.resolution, r.step_number, r.batch_id, r.run_id from block b
           join block_revision r on r.block_id = b.id where b.label = 'a/b' order by r.revision`,
      ),
    ).toEqual([
      {
        revision: 1,
        value: 'x',
        resolution: 'clean',
        step_number: 1,
        batch_id: batch.id,
        run_id: batch.run_ids[0],
      },
      {
        revision: 2,
        value: 'y',
        resolution: 'clean',
        step_number: 2,
        batch_id: batch.id,
        run_id: batch.run_ids[0],
      },
    ]);
    expect(
      await house.rows('select kind, label, step_number from block_event order by step_number, place'),
    ).toEqual([
      { kind: 'created', label: 'a/b', step_number: 1 },
      { kind: 'created', label: 'c', step_number: 3 },
      { kind: 'detached', label: 'a/b', step_number: 4 },
      { kind: 'created', label: 'd', step_number: 5 },
    ]);
    // Shown by the steps after its creation, and by none after it was detached.
    const showing = await house.rows<{ number: number }>(
      `select s.number from step s join block b on b.id = any(s.block_ids) where b.label = 'a/b' order by s.number`,
    );
    expect(showing.map(({ number }) => number)).toEqual([2, 3, 4]);
  });

  test('are known to the next request of the run', async () => {
    const batch = await house.submit([
      {
        input: [
          memory({ command: 'create', path: 'plan', description: 'what to do', file_text: 'rest' }),
          memory({ command: 'rename', old_path: 'notes', new_path: 'facts' }, true),
          memory({ command: 'rename', path: 'facts', description: 'what is known' }, true),
        ].join('\n'),
        blocks: { notes: 'n' },
        tools: ['memory'],
      },
    ]);
    await house.drive(worker);
    const shown = await house.rows<{ label: string; revision: number }>(
      `select b.label, u.revision from step s cross join unnest(s.block_ids, s.block_revisions) u(id, revision)
         join block b on b.id = u.id where s.number = 2 order by b.label`,
    );
    expect(shown).toEqual([
      { label: 'facts', revision: 2 },
      { label: 'plan', revision: 1 },
    ]);
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([
      { label: 'facts', value: 'n', description: 'what is known' },
      { label: 'plan', description: 'what to do' },
    ]);
  });

  test('may swap their labels in one answer', async () => {
    const rename = (old_path: string, new_path: string) =>
      memory({ command: 'rename', old_path, new_path }, true);
    const batch = await house.submit([
      {
        input: [rename('a', 'x'), rename('b', 'a'), rename('x', 'b')].join('\n'),
        blocks: { a: 'of a', b: 'of b' },
        tools: ['memory'],
      },
    ]);
    await house.drive(worker);
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([
      { label: 'b', value: 'of a' },
      { label: 'a', value: 'of b' },
    ]);
  });

  test('labels are reused and swapped by one patch', async () => {
    const patch = (...lines: readonly string[]) => call('memory_apply_patch', { patch: lines.join('\n') });
    const batch = await house.submit([
      {
        input: [
          patch('*** Delete Block: empty', '*** Update Block: human', '*** Move to: empty'),
          patch(
            ...['*** Update Block: empty', '*** Move to: x', '*** Update Block: b', '*** Move to: empty'],
            ...['*** Update Block: x', '*** Move to: b'],
          ),
        ].join('\n'),
        blocks: { human: 'of human', empty: '', b: 'of b' },
        tools: ['memory_apply_patch'],
      },
    ]);
    await house.drive(worker);
    expect(await callsOf(batch)).toEqual(['succeeded', 'succeeded']);
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([
      { label: 'b', value: 'of human' },
      { label: 'empty', value: 'of b' },
    ]);
  });

  test('a read-only block is neither renamed nor detached, and the call is an error', async () => {
    const batch = await house.submit([
      {
        input: [
          memory({ command: 'delete', path: 'rules' }),
          memory({ command: 'rename', old_path: 'rules', new_path: 'x' }, true),
          call('memory_replace', { label: 'rules', old_string: 'kind', new_string: 'rude' }, true),
        ].join('\n'),
        blocks: { rules: 'be kind' },
        tools: ['memory', 'memory_replace'],
      },
    ]);
    await house.rows('update block_revision set read_only = true');
    await house.drive(worker);
    expect(await callsOf(batch)).toEqual(['failed', 'failed', 'failed']);
    expect((await resultsOf(batch)).every((text) => text.includes('read-only'))).toBe(true);
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([{ label: 'rules', value: 'be kind' }]);
  });

  test('a shared block does not take a label that another of its agents uses', async () => {
    const batch = await house.submit([
      {
        input: memory({ command: 'rename', old_path: 'notes', new_path: 'facts' }),
        blocks: { notes: 'shared' },
        tools: ['memory'],
      },
      { input: 'nothing', blocks: { facts: 'own' } },
    ]);
    await house.rows(
      `insert into agent_block (agent_id, block_id, label, project_id, position)
       select $1, b.id, b.label, b.project_id, 9 from block b where b.label = 'notes'`,
      [batch.agent_ids[1]],
    );
    await house.drive(worker);
    expect(await callsOf(batch)).toEqual(['failed']);
    expect((await resultsOf(batch))[0]).toContain("shared with an agent that has a block 'facts' already");
    expect(await blocksOf(batch.agent_ids[1])).toMatchObject([{ label: 'facts' }, { label: 'notes' }]);
  });

  test('a shared block is refused a label that another of its agents takes during the commit', async () => {
    const batch = await house.submit([
      {
        input: memory({ command: 'rename', old_path: 'notes', new_path: 'facts' }),
        blocks: { notes: 'shared' },
        tools: ['memory'],
      },
      { input: 'nothing', blocks: { facts: 'own' } },
    ]);
    await share(batch, 'notes');
    const [renaming = '', other = ''] = batch.agent_ids;
    const [facts] = await house.rows<{ block_id: string }>(
      `delete from agent_block where agent_id = $1 and label = 'facts' returning block_id`,
      [other],
    );
    const [attached, looked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const attaching = inTransaction(house.database.db, async (trx) => {
      await attachBlock(trx, DEFAULT_PROJECT_ID, other, facts!.block_id);
      attached.resolve();
      await looked.promise;
    });
    await attached.promise;
    // Each line is a chunk, so only its own commit can see the label.
    const alone = house.worker({ settings: { chunk_lines: 1, chunks_in_flight: 1 } });
    const driving = house.drive(alone);
    await expect.poll(isTransactionWaiting, { timeout: 20_000 }).toBe(true);
    looked.resolve();
    await attaching;
    await driving;
    expect(await house.runsOf(batch.id)).toMatchObject([
      { stop_reason: 'end_turn' },
      { stop_reason: 'end_turn' },
    ]);
    expect(await callsOf(batch)).toEqual(['failed']);
    expect((await resultsOf(batch))[0]).toContain("shared with an agent that has a block 'facts' already");
    expect(await blocksOf(renaming)).toMatchObject([{ label: 'notes' }]);
    expect(await house.rows('select from result_line')).toEqual([]);
  });

  test('a shared block renamed and detached by one patch keeps its new label from others', async () => {
    const lines = [
      ...['*** Update Block: notes', '*** Move to: facts', '*** Delete Block: facts'],
      ...['*** Update Block: plan', '*** Move to: facts'],
    ];
    const batch = await house.submit([
      {
        input: call('memory_apply_patch', { patch: lines.join('\n') }),
        blocks: { notes: 'n', plan: 'p' },
        tools: ['memory_apply_patch'],
      },
      { input: 'nothing' },
    ]);
    await share(batch, 'notes');
    await share(batch, 'plan');
    await house.drive(worker);
    expect(await callsOf(batch)).toEqual(['failed']);
    expect((await resultsOf(batch))[0]).toContain("shared with an agent that has a block 'facts' already");
    for (const agentId of batch.agent_ids) {
      expect(await blocksOf(agentId)).toMatchObject([{ label: 'notes' }, { label: 'plan' }]);
    }
  });

  test('two runs of one agent that create a block of the same label: the second gets an error', async () => {
    const create = memory({ command: 'create', path: 'plan', description: 'd', file_text: 'x' });
    const batch = await house.submit([
      { input: create, tools: ['memory'] },
      { input: create, same_agent_as: 0 },
    ]);
    await house.drive(worker);
    expect((await callsOf(batch)).toSorted()).toEqual(['failed', 'succeeded']);
    expect(await blocksOf(batch.agent_ids[0])).toHaveLength(1);
  });
});

test('a patch of several blocks is written completely or not at all', async () => {
  const patch = (...lines: string[]) => call('memory_apply_patch', { patch: lines.join('\n') });
  const batch = await house.submit([
    {
      input: [
        patch('*** Add Block: new', '+a', '*** Update Block: notes', '-gone', '+x'),
        patch('*** Add Block: new', '+a', '*** Move to: newer', '*** Update Block: notes', '-n', '+m'),
      ].join('\n'),
      blocks: { notes: 'n' },
      tools: ['memory_apply_patch'],
    },
  ]);
  await house.drive(worker);
  expect(await callsOf(batch)).toEqual(['failed', 'succeeded']);
  expect(await blocksOf(batch.agent_ids[0])).toMatchObject([
    { label: 'notes', value: 'm', revision: 2 },
    { label: 'newer', value: 'a', revision: 1 },
  ]);
});

test('a rewrite, other calls, words and invalid calls run side by side, each independently', async () => {
  const batch = await house.submit([
    {
      input: call('rethink_memory', { target_block_label: 'notes', new_memory: 'new' }),
      blocks: { notes: 'old' },
      tools: ['rethink_memory'],
    },
    {
      input: [
        call('core_memory_append', { label: 'notes', content: 'more' }),
        call('send_message', { message: 'hello' }, true),
        call('memory_finish_edits', {}, true),
      ].join('\n'),
      blocks: { notes: 'old' },
      tools: ['core_memory_append', 'send_message', 'memory_finish_edits'],
    },
    { input: 'Nothing is to be called.', tools: ['rethink_memory'] },
    {
      input: [
        call('rethink_memory', { target_block_label: 7 }),
        call('core_memory_append', { label: 'elsewhere', content: 'lost' }, true),
        call('no_such_tool', {}, true),
      ].join('\n'),
      blocks: { notes: 'old' },
      tools: ['rethink_memory', 'core_memory_append'],
    },
  ]);
  // A provider that enforces the schema never makes an invalid call.
  await house.rows('update definition set strict = null');
  await house.drive(worker);
  expect(await callsOf(batch)).toEqual([...Array(4).fill('succeeded'), ...Array(3).fill('failed')]);
  expect(await house.runsOf(batch.id)).toMatchObject(
    [2, 2, 1, 2].map((step_number) => ({ state: 'completed', stop_reason: 'end_turn', step_number })),
  );
  const results = await resultsOf(batch, 1);
  expect(results[0]).toContain('old\\nmore');
  expect(results[1]).toContain('Sent message successfully.');
  const refused = await resultsOf(batch, 3);
  expect(refused[0]).toContain("missing required property 'new_memory'");
  expect(refused[1]).toContain('elsewhere');
  expect(refused[2]).toContain('no_such_tool');
  expect(await blocksOf(batch.agent_ids[0])).toMatchObject([{ value: 'new' }]);
  expect(await blocksOf(batch.agent_ids[3])).toMatchObject([{ value: 'old', revision: 1 }]);
});

/** Attaches the first agent's block to the others too. */
const share = (batch: SubmittedBatch, label: string) =>
  house.rows(
    `insert into agent_block (agent_id, block_id, label, project_id, position)
     select a.id, b.id, b.label, b.project_id, 9 from agent a, block b
      where b.label = $3 and a.id = any($1) and a.id <> $2`,
    [batch.agent_ids, batch.agent_ids[0], label],
  );

test('an edit of one block leaves a concurrent edit of another shared block alone', async () => {
  const append = (label: string, content: string) => call('core_memory_append', { label, content });
  const batch = await house.submit([
    { input: append('shared', 'by one'), blocks: { shared: 'old' }, tools: ['core_memory_append'] },
    { input: append('own', 'by two'), blocks: { own: 'old' }, tools: ['core_memory_append'] },
  ]);
  await share(batch, 'shared');
  await house.drive(worker);
  expect(await blocksOf(batch.agent_ids[1])).toMatchObject([
    { label: 'own', value: 'old\nby two', revision: 2 },
    { label: 'shared', value: 'old\nby one', revision: 2 },
  ]);
});

/** Sends ready requests, which are processed while the test goes on. */
async function send(): Promise<void> {
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
}

test('a write that restores an earlier text over a concurrent write is a write, though the prompt shows it', async () => {
  const batch = await house.submit([
    {
      input: call('memory_rethink', { label: 'notes', new_memory: 'as shown' }),
      blocks: { notes: 'as shown' },
      tools: ['memory_rethink'],
    },
  ]);
  await house.rows(`update block set conflict_policy = 'last_write'`);
  await send();
  await house.rows(
    `with moved as (update block set head_revision = 2 returning id, project_id)
     insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on)
     select id, 2, project_id, 'by hand', 10000, false, 1 from moved`,
  );
  await house.drive(worker);
  expect(await blocksOf(batch.agent_ids[0])).toMatchObject([{ value: 'as shown', revision: 3 }]);
});

test('an agent and a block deleted during requests affect only their own runs', async () => {
  const batch = await house.submit(
    Array.from({ length: 4 }, () => ({
      input: ['one', 'two']
        .map((content) => call('core_memory_append', { label: 'notes', content }))
        .join('\n'),
      blocks: { notes: '' },
      tools: ['core_memory_append'],
    })),
  );
  await send();
  const [lost] = await house.rows<{ id: string }>(
    'select block_id as id from agent_block where agent_id = $1',
    [batch.agent_ids[2]],
  );
  await inTransaction(house.database.db, async (trx) => {
    await deleteAgent(trx, DEFAULT_PROJECT_ID, batch.agent_ids[1] ?? '');
    await deleteBlock(trx, DEFAULT_PROJECT_ID, lost?.id ?? '');
  });
  const attached = () =>
    house.rows('select agent_id from agent_block where agent_id = $1', [batch.agent_ids[1]]);
  expect(await attached()).toHaveLength(1);
  await house.drive(worker);
  expect(await house.runsOf(batch.id)).toMatchObject(
    batch.run_ids.map(() => ({ state: 'completed', stop_reason: 'end_turn', step_number: 3 })),
  );
  expect(await callsOf(batch)).toEqual([
    ...Array.from({ length: 4 }, () => 'succeeded'),
    'failed',
    'failed',
    'succeeded',
    'succeeded',
  ]);
  expect((await resultsOf(batch, 2))[0]).toContain('notes');
  expect(await blocksOf(batch.agent_ids[3])).toMatchObject([{ value: '\none\ntwo' }]);
  expect(await attached()).toEqual([]);
});

describe('the text of a block', () => {
  const notes = (value: string, tool: string, args: Readonly<Record<string, unknown>>) =>
    house.submit([{ input: call(tool, args), blocks: { notes: value }, tools: [tool] }]);

  test.each<[string, string, string, Readonly<Record<string, unknown>>, string]>([
    [
      'takes an insert without a line at its end',
      'one\ntwo',
      'memory',
      { command: 'insert', path: 'notes', insert_text: 'three' },
      'one\ntwo\nthree',
    ],
    [
      'takes patches with lines like patch headings',
      '-- old\nrest',
      'memory_apply_patch',
      { label: 'notes', patch: '@@\n--- old\n+++ new' },
      '++ new\nrest',
    ],
    [
      'keeps tabs outside the edit',
      'a\tb\n\tc\none',
      'memory_replace',
      { label: 'notes', old_string: 'one', new_string: 'two' },
      'a\tb\n\tc\ntwo',
    ],
  ])('%s', async (_what, value, tool, args, expected) => {
    const batch = await notes(value, tool, args);
    await house.drive(worker);
    expect(await callsOf(batch)).toEqual(['succeeded']);
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([{ value: expected, revision: 2 }]);
  });

  test.each<[string, string, Readonly<Record<string, unknown>>, string]>([
    [
      'refuses a patch with an unknown kind of line',
      'memory_apply_patch',
      { label: 'notes', patch: '-one\ntwo' },
      'two',
    ],
    [
      'refuses line numbers of the prompt',
      'memory_insert',
      { label: 'notes', new_string: '1→ one' },
      'line number',
    ],
    [
      'refuses text over its limit',
      'core_memory_append',
      { label: 'notes', content: 'x'.repeat(10_000) },
      '10004',
    ],
  ])('%s', async (_what, tool, args, told) => {
    const batch = await notes('one', tool, args);
    await house.drive(worker);
    expect(await callsOf(batch)).toEqual(['failed']);
    expect((await resultsOf(batch))[0]).toContain(told);
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([{ value: 'one', revision: 1 }]);
  });

  test('of many concurrent writes, only writes over a limit or to a read-only block are refused; others are revisions', async () => {
    const batch = await house.submit(
      Array.from({ length: 30 }, (_, index) => ({
        input: call('core_memory_append', { label: 'notes', content: 'x'.repeat(index % 3 === 1 ? 11 : 1) }),
        blocks: { notes: `of ${index}` },
        tools: ['core_memory_append'],
      })),
    );
    await house.rows(
      `update block_revision v set char_limit = 10, read_only = r.ordinal % 3 = 2
         from run r join agent_block k on k.agent_id = r.agent_id where k.block_id = v.block_id`,
    );
    await house.drive(worker);
    expect(await callsOf(batch)).toEqual(
      batch.run_ids.map((_, index) => (index % 3 === 0 ? 'succeeded' : 'failed')),
    );
    const written = await house.rows<{
      ordinal: number;
      value: string;
      revision: number;
      step_number: number;
    }>(
      `select r.ordinal, v.value, v.revision, v.step_number from block_revision v join run r on r.id = v.run_id
        where v.batch_id = $1 order by r.ordinal`,
      [batch.id],
    );
    expect(written).toEqual(
      Array.from({ length: 10 }, (_, n) => ({
        ordinal: n * 3,
        value: `of ${n * 3}\nx`,
        revision: 2,
        step_number: 1,
      })),
    );
    expect(await house.rows('select 1 from block where head_revision > 1')).toHaveLength(10);
  });
});
