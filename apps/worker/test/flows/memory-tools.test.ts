import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flows/deps.ts';
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

/** The blocks of an agent as its next request shows them. */
const blocksOf = (agentId: string | undefined) =>
  house.rows<{ label: string; value: string; description: string | null; revision: number }>(
    `select b.label, r.value, r.description, r.revision from agent_block k join block b on b.id = k.block_id
       join block_revision r on r.block_id = b.id and r.revision = b.head_revision
      where k.agent_id = $1 and k.label = b.label order by k.position`,
    [agentId],
  );

/** Whether each call of a batch was carried out, in order, by run. */
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

const memory = (args: Readonly<Record<string, unknown>>, parallel = false) => call('memory', args, parallel);

describe('blocks that a tool makes, gives up, renames and describes', () => {
  test('B60, B61: are stored, attached and found again under their label, slashes included', async () => {
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
    // The block that was given up keeps its text and its history, each write with its writer.
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
  });

  test('B81: are in the next prompt of the run', async () => {
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

  test('two of them may swap their labels in one answer', async () => {
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

  test('B63: one that is read-only is neither renamed nor given up, and the call is an error', async () => {
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

  test('B64: a shared one does not take a label that another of its agents uses', async () => {
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

  test('two runs of one agent that make a block of the same label: the second is told', async () => {
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

test('B65: a patch of several blocks is written whole or not at all', async () => {
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

test('B1, B7: calls of different tools in different runs are all carried out, with their results', async () => {
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
  ]);
  await house.drive(worker);
  expect(await callsOf(batch)).toEqual(Array.from({ length: 4 }, () => 'succeeded'));
  const results = await resultsOf(batch, 1);
  expect(results[0]).toContain('old\\nmore');
  expect(results[1]).toContain('Sent message successfully.');
  expect(await blocksOf(batch.agent_ids[0])).toMatchObject([{ value: 'new' }]);
});
