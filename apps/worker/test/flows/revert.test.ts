import type {} from '../../../../test/global-setup.ts';
import {
  auditInvariants,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  inTransaction,
  revertBatch,
  type HeldFilter,
} from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { call, openHouse, type House, type SubmittedBatch, type SubmittedRun } from './house.ts';

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

const blocksOf = (agentId: string | undefined) =>
  house.rows<{ label: string; value: string; description: string | null }>(
    `select k.label, r.value, r.description from agent_block k join block b on b.id = k.block_id
       join block_revision r on r.block_id = b.id and r.revision = b.head_revision
      where k.agent_id = $1 and k.label = b.label order by k.label`,
    [agentId],
  );
const revert = (batch: SubmittedBatch, force = false, filter: Partial<HeldFilter> = {}) =>
  inTransaction(house.database.db, (trx) =>
    revertBatch(trx, DEFAULT_PROJECT_ID, batch.id, force, { agent_ids: null, block_ids: null, ...filter }),
  );

async function run(runs: readonly SubmittedRun[]): Promise<SubmittedBatch> {
  const batch = await house.submit(runs);
  await house.drive(worker);
  return batch;
}
const append = (content: string, label = 'notes') => call('core_memory_append', { label, content });
const memory = (args: Readonly<Record<string, unknown>>) => call('memory', args);

describe('reverting a batch', () => {
  test('restores every text it wrote, each in its own revision, once', async () => {
    const batch = await run(
      Array.from({ length: 20 }, (_, index) => ({
        input: [append('one'), append('two')].join('\n'),
        blocks: { notes: `text ${index}`, other: 'untouched' },
        tools: ['core_memory_append'],
      })),
    );
    const report = await revert(batch);
    expect([report.restored.length, report.refused, report.forced]).toEqual([20, [], []]);
    for (const [index, agentId] of batch.agent_ids.entries()) {
      expect(await blocksOf(agentId)).toMatchObject([
        { label: 'notes', value: `text ${index}` },
        { label: 'other', value: 'untouched' },
      ]);
    }
    expect(await house.rows('select distinct head_revision from block order by 1')).toEqual([
      { head_revision: 1 },
      { head_revision: 4 },
    ]);
    expect(await revert(batch)).toMatchObject({ restored: [], deleted: [], refused: [] });
  });

  test('restores only the named agents or blocks', async () => {
    const batch = await run(
      ['a', 'b', 'c'].map((name) => ({
        input: [append('x'), append('x', 'plan')].join('\n'),
        blocks: { notes: name, plan: name },
        tools: ['core_memory_append'],
      })),
    );
    const [first = '', second = '', third = ''] = batch.agent_ids;
    const texts = async () =>
      Promise.all(batch.agent_ids.map(async (id) => (await blocksOf(id)).map(({ value }) => value)));
    expect(await revert(batch, false, { agent_ids: [first] })).toMatchObject({ refused: [], forced: [] });
    expect(await texts()).toEqual([
      ['a', 'a'],
      ['b\nx', 'b\nx'],
      ['c\nx', 'c\nx'],
    ]);
    const [block] = await house.rows<{ id: string }>(
      `select block_id as id from agent_block where agent_id = $1 and label = 'plan'`,
      [second],
    );
    await revert(batch, false, { block_ids: [block?.id ?? ''] });
    expect(await texts()).toEqual([
      ['a', 'a'],
      ['b\nx', 'b'],
      ['c\nx', 'c\nx'],
    ]);
    const nothing = await revert(batch, false, { agent_ids: [third], block_ids: [block?.id ?? ''] });
    expect(nothing).toMatchObject({ restored: [], refused: [] });
    await expect(revert(batch, false, { agent_ids: [first, batch.id] })).rejects.toMatchObject({
      code: 'not_found',
      fields: [{ path: '/agent_ids/1' }],
    });
    await expect(revert(batch, false, { block_ids: [batch.id] })).rejects.toMatchObject({
      fields: [{ path: '/block_ids/0' }],
    });
    expect((await revert(batch)).restored).toHaveLength(3);
  });

  test('of one of two agents that wrote a block refuses it when the other wrote last', async () => {
    const batch = await house.submit([
      { input: append('one'), blocks: { notes: 'n' }, tools: ['core_memory_append'] },
      { input: append('two'), tools: ['core_memory_append'] },
    ]);
    await house.rows(
      `insert into agent_block (agent_id, block_id, label, project_id, position)
       select $1, b.id, b.label, b.project_id, 0 from block b where b.label = 'notes'`,
      [batch.agent_ids[1]],
    );
    await house.drive(worker);
    const writers = await house.rows<{ agent_id: string }>(
      `select r.agent_id from block_revision n join run r on r.id = n.run_id order by n.revision`,
    );
    const [first = '', last = ''] = writers.map(({ agent_id }) => agent_id);
    expect(await revert(batch, false, { agent_ids: [first] })).toMatchObject({
      restored: [],
      refused: [{ label: 'notes', reason: 'edited' }],
    });
    expect(await revert(batch, false, { agent_ids: [last] })).toMatchObject({
      restored: [{ label: 'notes' }],
      refused: [],
    });
  });

  test('undoes blocks that it created, detached, renamed and described', async () => {
    const batch = await run([
      {
        input: [
          memory({ command: 'create', path: 'plan', description: 'd', file_text: 'x' }),
          memory({ command: 'rename', old_path: 'a', new_path: 'z' }),
          memory({ command: 'rename', path: 'z', description: 'anew' }),
          memory({ command: 'delete', path: 'b' }),
          memory({ command: 'create', path: 'a', description: 'takes the label' }),
        ].join('\n'),
        blocks: { a: 'of a', b: 'of b' },
        tools: ['memory'],
      },
    ]);
    expect((await blocksOf(batch.agent_ids[0])).map((block) => block.label)).toEqual(['a', 'plan', 'z']);
    const report = await revert(batch);
    expect(report).toMatchObject({
      restored: [{ label: 'z' }],
      deleted: [{ label: 'plan' }, { label: 'a' }],
      renamed: [{ label: 'a' }],
      attached: [{ label: 'b', agent_id: batch.agent_ids[0] }],
      refused: [],
    });
    expect(await blocksOf(batch.agent_ids[0])).toEqual([
      { label: 'a', value: 'of a', description: null },
      { label: 'b', value: 'of b', description: null },
    ]);
  });

  test('gives a deleted agent nothing back, because nothing would ever remove it', async () => {
    const remove = memory({ command: 'delete', path: 'notes' });
    const batch = await run([{ input: remove, blocks: { notes: 'n' }, tools: ['memory'] }]);
    const [agentId = ''] = batch.agent_ids;
    await inTransaction(house.database.db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, agentId));
    expect(await revert(batch)).toMatchObject({ attached: [], refused: [] });
    expect(await blocksOf(agentId)).toEqual([]);
  });

  test('leaves later edits of others and reports them; forced, it overwrites and reports them', async () => {
    const batch = await run([
      { input: append('by the batch'), blocks: { notes: 'first' }, tools: ['core_memory_append'] },
    ]);
    const later = await run([
      {
        input: append('by a later batch'),
        agent_id: batch.agent_ids[0] ?? '',
        tools: ['core_memory_append'],
      },
    ]);
    const value = 'first\nby the batch\nby a later batch';
    const [block] = await house.rows<{ id: string }>('select id from block');
    const named = { block_id: block?.id, label: 'notes' };
    expect(await revert(batch)).toMatchObject({ restored: [], refused: [{ ...named, reason: 'edited' }] });
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([{ value }]);
    expect(await revert(batch, true)).toMatchObject({ restored: [named], forced: [named], refused: [] });
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([{ value: 'first' }]);
    expect(later.agent_ids).toEqual(batch.agent_ids);
  });

  test('restores overwritten texts after a revert of the later batch, night by night, down to the first', async () => {
    const texts = () => house.rows(`select value from block_revision order by revision`);
    const first = await run([
      {
        input: memory({ command: 'create', path: 'plan', description: 'd', file_text: 'night 1' }),
        tools: ['memory'],
      },
    ]);
    const [agent_id = ''] = first.agent_ids;
    const edit = (old_string: string, new_string: string): Promise<SubmittedBatch> =>
      run([
        {
          input: [
            memory({ command: 'str_replace', path: 'plan', old_string, new_string }),
            memory({ command: 'rename', path: 'plan', description: new_string }),
          ].join('\n'),
          agent_id,
        },
      ]);
    const second = await edit('night 1', 'night 2');
    const third = await edit('night 2', 'night 3');
    expect(await revert(second)).toMatchObject({ restored: [], refused: [{ reason: 'edited' }] });
    expect(await revert(third)).toMatchObject({ restored: [{ label: 'plan' }], forced: [], refused: [] });
    expect(await blocksOf(agent_id)).toEqual([{ label: 'plan', value: 'night 2', description: 'night 2' }]);
    expect(await revert(second)).toMatchObject({ restored: [{ label: 'plan' }], forced: [], refused: [] });
    expect(await blocksOf(agent_id)).toEqual([{ label: 'plan', value: 'night 1', description: 'd' }]);
    expect(await texts()).toHaveLength(7);
    expect(await revert(first)).toMatchObject({ deleted: [{ label: 'plan' }], forced: [], refused: [] });
    expect(await blocksOf(agent_id)).toEqual([]);
  });

  describe('of blocks that another batch wrote too', () => {
    const textOf = async (agentId = ''): Promise<string | undefined> => (await blocksOf(agentId))[0]?.value;
    const edit = (old_string: string, new_string: string, agent_id?: string): Promise<SubmittedBatch> =>
      run([
        {
          input: memory({ command: 'str_replace', path: 'notes', old_string, new_string }),
          tools: ['memory'],
          ...(agent_id === undefined ? { blocks: { notes: old_string } } : { agent_id }),
        },
      ]);

    test('does not count a block as undone because the other batch wrote the earlier text', async () => {
      const first = await edit('a', 'b');
      const [agent_id] = first.agent_ids;
      const second = await edit('b', 'a', agent_id);
      expect(await revert(first)).toMatchObject({ restored: [], refused: [{ reason: 'edited' }] });
      expect(await textOf(agent_id)).toBe('a');
      expect(await revert(second)).toMatchObject({ restored: [{ label: 'notes' }], forced: [], refused: [] });
      expect(await textOf(agent_id)).toBe('b');
      expect(await revert(first)).toMatchObject({ restored: [{ label: 'notes' }], forced: [], refused: [] });
      expect(await textOf(agent_id)).toBe('a');
      expect(await revert(first)).toMatchObject({ restored: [], refused: [] });
    });

    test('leaves a write of the same text by a batch after its revert', async () => {
      const first = await edit('a', 'b');
      const [agent_id] = first.agent_ids;
      await revert(first);
      const second = await edit('a', 'b', agent_id);
      expect(await revert(first)).toMatchObject({ restored: [], refused: [{ reason: 'edited' }] });
      expect(await textOf(agent_id)).toBe('b');
      expect(await revert(first, true)).toMatchObject({ forced: [{ label: 'notes' }], refused: [] });
      expect(await textOf(agent_id)).toBe('a');
      expect(await revert(second)).toMatchObject({ restored: [], refused: [] });
    });

    test('restores a text after a batch that ended at its start text, and a restored text', async () => {
      const first = await edit('a', 'b');
      const [agent_id = ''] = first.agent_ids;
      const replace = (old_string: string, new_string: string): string =>
        memory({ command: 'str_replace', path: 'notes', old_string, new_string });
      const nil = await run([{ input: [replace('b', 'c'), replace('c', 'b')].join('\n'), agent_id }]);
      expect(await revert(nil)).toMatchObject({ restored: [], refused: [] });
      expect(await revert(first)).toMatchObject({ restored: [{ label: 'notes' }], forced: [], refused: [] });
      await house.rows(
        `with moved as (update block set head_revision = head_revision + 1 returning id, head_revision)
         insert into block_revision (block_id, revision, project_id, value, description, char_limit, read_only, based_on)
         select m.id, m.head_revision, r.project_id, value, description, char_limit, read_only, m.head_revision - 1
           from moved m join block_revision r on r.block_id = m.id and r.revision = 2`,
      );
      expect(await textOf(agent_id)).toBe('b');
      expect(await revert(first)).toMatchObject({ restored: [{ label: 'notes' }], forced: [], refused: [] });
      expect(await textOf(agent_id)).toBe('a');
    });
  });

  test.each([
    ['text', `'by hand'`, 'description', 'char_limit', 'read_only'],
    ['description', 'value', `'by hand'`, 'char_limit', 'read_only'],
    ['limit', 'value', 'description', 'char_limit + 1', 'read_only'],
    ['protection', 'value', 'description', 'char_limit', 'not read_only'],
  ])(
    'leaves a block whose %s a person has changed since; restores it once that is changed back',
    async (...edit) => {
      const batch = await run([
        { input: append('x'), blocks: { notes: 'n' }, tools: ['core_memory_append'] },
      ]);
      const write = (columns: readonly string[]) =>
        house.rows(
          `with moved as (update block set head_revision = head_revision + 1 returning id, head_revision)
         insert into block_revision (block_id, revision, project_id, value, description, char_limit, read_only, based_on)
         select m.id, m.head_revision, r.project_id, ${columns.join(', ')}, m.head_revision - 1
           from moved m join block_revision r on r.block_id = m.id and r.revision = 2`,
        );
      await write(edit.slice(1));
      expect(await revert(batch)).toMatchObject({ restored: [], refused: [{ reason: 'edited' }] });
      await write(['value', 'description', 'char_limit', 'read_only']);
      expect(await revert(batch)).toMatchObject({ restored: [{ label: 'notes' }], forced: [], refused: [] });
    },
  );

  test('leaves the label of blocks edited by others too, and reports it once', async () => {
    const edit = (old_string: string, new_string: string): string =>
      memory({ command: 'str_replace', path: 'z', old_string, new_string });
    const batch = await run([
      {
        input: [memory({ command: 'rename', old_path: 'a', new_path: 'z' }), edit('of', 'OF')].join('\n'),
        blocks: { a: 'of a' },
        tools: ['memory'],
      },
    ]);
    const [agent_id = ''] = batch.agent_ids;
    await run([{ input: edit('OF', 'by others:'), agent_id }]);
    expect(await revert(batch)).toMatchObject({
      restored: [],
      renamed: [],
      refused: [{ label: 'z', reason: 'edited' }],
    });
    expect(await blocksOf(agent_id)).toMatchObject([{ label: 'z', value: 'by others: a' }]);
    expect(await revert(batch, true)).toMatchObject({
      restored: [{ label: 'z' }],
      forced: [{ label: 'z' }],
      renamed: [{ label: 'a' }],
      refused: [],
    });
    expect(await blocksOf(agent_id)).toMatchObject([{ label: 'a', value: 'of a' }]);
  });

  test('leaves labels that others gave since; forced, it overwrites and reports them if the former labels are free', async () => {
    const rename = (old_path: string, new_path: string): string =>
      memory({ command: 'rename', old_path, new_path });
    const batch = await run([
      {
        input: [
          rename('a', 'b'),
          rename('c', 'd'),
          memory({ command: 'str_replace', path: 'b', old_string: 'of', new_string: 'OF' }),
        ].join('\n'),
        blocks: { a: 'of a', c: 'of c' },
        tools: ['memory'],
      },
    ]);
    const [agent_id = ''] = batch.agent_ids;
    await run([
      {
        input: [
          rename('b', 'x'),
          rename('d', 'y'),
          memory({ command: 'str_replace', path: 'x', old_string: 'OF', new_string: 'by others:' }),
          memory({ command: 'create', path: 'c', description: '' }),
        ].join('\n'),
        agent_id,
      },
    ]);
    const { renamed, refused } = await revert(batch);
    expect(renamed).toEqual([]);
    expect(refused.map(({ label, reason }) => `${label}: ${reason}`).toSorted()).toEqual([
      'x: edited',
      'y: edited',
    ]);
    expect(await revert(batch, true)).toMatchObject({
      restored: [{ label: 'x' }],
      forced: [{ label: 'x' }],
      renamed: [{ label: 'a' }],
      refused: [{ label: 'y', reason: 'label_taken' }],
    });
    await house.rows(`delete from agent_block where label = 'c'`);
    expect(await revert(batch, true)).toMatchObject({
      restored: [],
      forced: [{ label: 'y' }],
      renamed: [{ label: 'c' }],
      refused: [],
    });
    expect(await blocksOf(agent_id)).toMatchObject([
      { label: 'a', value: 'of a' },
      { label: 'c', value: 'of c' },
    ]);
  });

  test('refuses labels in use again, and deleted blocks', async () => {
    const batch = await run([
      {
        input: [
          memory({ command: 'rename', old_path: 'a', new_path: 'z' }),
          memory({ command: 'delete', path: 'b' }),
          memory({ command: 'str_replace', path: 'c', old_string: 'of', new_string: 'OF' }),
        ].join('\n'),
        blocks: { a: 'of a', b: 'of b', c: 'of c' },
        tools: ['memory'],
      },
    ]);
    await run([
      {
        input: [
          memory({ command: 'create', path: 'a', description: '' }),
          memory({ command: 'create', path: 'b', description: '' }),
        ].join('\n'),
        agent_id: batch.agent_ids[0] ?? '',
      },
    ]);
    await house.rows(`delete from agent_block where label = 'c'`);
    await house.rows(`update block set deleted_at = app_now() where label = 'c'`);
    const { refused } = await revert(batch);
    expect(refused.map(({ label, reason }) => `${label}: ${reason}`).toSorted()).toEqual([
      'b: label_taken',
      'c: deleted',
      'z: label_taken',
    ]);
  });

  test('gives an agent one block per label back, its first, and reports the others', async () => {
    const rename = (new_path: string): string => memory({ command: 'rename', old_path: 'a', new_path });
    const remove = call('memory', { command: 'delete', path: 'b' }, true);
    let isAnswered = false;
    worker = house.worker({
      hooks: async (point) => {
        if (point !== 'ingest.after_commit' || isAnswered) return;
        isAnswered = true;
        // The labels are free after the first step: a person gives the agent other blocks with these labels.
        await house.rows(
          `with new as (
             insert into block (id, project_id, label, head_revision)
             select gen_random_uuid(), a.project_id, l.label, 1 from agent a, unnest(array['a', 'b']) l(label)
             returning id, project_id, label),
           texts as (
             insert into block_revision (block_id, revision, project_id, value, char_limit, read_only)
             select id, 1, project_id, 'another ' || label, 10000, false from new)
           insert into agent_block (agent_id, block_id, label, project_id, position)
           select a.id, n.id, n.label, n.project_id, 9 from new n, agent a`,
        );
      },
    });
    const batch = await run([
      {
        input: [rename('z'), remove, rename('y'), remove].join('\n'),
        blocks: { a: 'of a', b: 'of b' },
        tools: ['memory'],
      },
    ]);
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([{ label: 'y' }, { label: 'z' }]);
    expect(await revert(batch)).toMatchObject({
      renamed: [{ label: 'a' }],
      attached: [{ label: 'b' }],
      refused: [
        { label: 'y', reason: 'label_taken' },
        { label: 'b', reason: 'label_taken' },
      ],
    });
    expect(await blocksOf(batch.agent_ids[0])).toMatchObject([
      { label: 'a', value: 'of a' },
      { label: 'b', value: 'of b' },
      { label: 'y', value: 'another a' },
    ]);
  });

  test('that has not ended, or does not exist, is refused', async () => {
    const batch = await house.submit([{ input: 'x' }]);
    await expect(revert(batch)).rejects.toMatchObject({ code: 'batch_running' });
    await expect(revert({ ...batch, id: batch.run_ids[0] ?? '' })).rejects.toMatchObject({
      code: 'not_found',
    });
    await house.drive(worker);
  });
});
