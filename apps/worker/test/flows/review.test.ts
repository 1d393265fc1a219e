import type {} from '../../../../test/global-setup.ts';
import { mergeThreeWay } from '@nightshift/agent-core';
import {
  acceptHeldChanges,
  auditInvariants,
  DEFAULT_PROJECT_ID,
  deleteAgent,
  editHeldChange,
  inTransaction,
  rejectHeldChanges,
  revertBatch,
  writeBlock,
  type HeldFilter,
  type OnConflict,
} from '@nightshift/db';
import { diff3MergeRegions, diffIndices } from 'node-diff3';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { call, noted, openHouse, type House, type SubmittedBatch, type SubmittedRun } from './house.ts';

let house: House;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  worker = house.worker({ settings: { chunk_lines: 250 } });
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

const ALL: HeldFilter = { agent_ids: null, block_ids: null };
const REBASE: OnConflict = {
  kind: 'rebase',
  merge: (base, current, mine) => mergeThreeWay(base, current, mine, { diff3MergeRegions, diffIndices }),
};
const accept = (batch: SubmittedBatch, filter: Partial<HeldFilter> = {}, onConflict?: OnConflict) =>
  inTransaction(house.database.db, (trx) =>
    acceptHeldChanges(trx, DEFAULT_PROJECT_ID, batch.id, { ...ALL, ...filter }, onConflict),
  );
const reject = async (batch: SubmittedBatch, filter: Partial<HeldFilter> = {}) => {
  const { rejected } = await inTransaction(house.database.db, (trx) =>
    rejectHeldChanges(trx, DEFAULT_PROJECT_ID, batch.id, { ...ALL, ...filter }),
  );
  return rejected;
};

/** Reads the blocks in force of every agent of a batch, in the order of its requests. */
const memoryOf = async (batch: SubmittedBatch) => {
  const rows = await house.rows<{ agent_id: string; label: string; value: string }>(
    `select k.agent_id, k.label, r.value from agent_block k join block b on b.id = k.block_id
       join block_revision r on r.block_id = b.id and r.revision = b.head_revision
      where k.agent_id = any($1) and k.label = b.label and b.deleted_at is null order by k.label`,
    [batch.agent_ids],
  );
  const byAgent = Map.groupBy(rows, (row) => row.agent_id);
  return batch.agent_ids.map((id) =>
    Object.fromEntries((byAgent.get(id) ?? []).map(({ label, value }) => [label, value])),
  );
};

async function run(runs: readonly SubmittedRun[]): Promise<SubmittedBatch> {
  const batch = await house.submit(runs, { apply: 'review' });
  await house.drive(worker);
  return batch;
}
const append = (content: string) => call('core_memory_append', { label: 'notes', content });
const memory = (args: Readonly<Record<string, unknown>>) => call('memory', args);

describe('a batch under review', () => {
  test('puts a new block of an agent deleted since in force, and attaches it to no agent', async () => {
    const create = memory({ command: 'create', path: 'plan', description: 'd', file_text: 'x' });
    const batch = await run([{ input: create, tools: ['memory'] }]);
    const [agentId = ''] = batch.agent_ids;
    await inTransaction(house.database.db, (trx) => deleteAgent(trx, DEFAULT_PROJECT_ID, agentId));
    expect(await accept(batch)).toMatchObject({ accepted: 1, stale: [] });
    expect(await memoryOf(batch)).toEqual([{}]);
    expect(await house.rows('select label from block where deleted_at is null')).toEqual([{ label: 'plan' }]);
  });

  test('of 500 agents changes nothing before the accept, then all at once except blocks edited by others', async () => {
    const batch = await run(
      Array.from({ length: 500 }, (_, index) => ({
        input: `${append('first')}\n${append('second')}`,
        blocks: { notes: `text ${index}` },
        tools: ['core_memory_append'],
      })),
    );
    const before = await memoryOf(batch);
    expect(before).toEqual(Array.from({ length: 500 }, (_, index) => ({ notes: `text ${index}` })));
    // The second step of each run saw its own first write.
    const [states] = await house.rows(
      `select count(*)::int as calls, count(*) filter (where c.state = 'succeeded')::int as succeeded,
              (select count(distinct step_number)::int from tool_call) as steps from tool_call c`,
    );
    expect(states).toEqual({ calls: 1_000, succeeded: 1_000, steps: 2 });

    const [edited] = await house.rows<{ id: string }>(
      `select block_id as id from agent_block where agent_id = $1`,
      [batch.agent_ids[7]],
    );
    await house.rows(
      `with moved as (update block set head_revision = 2 where id = $1 returning id, project_id)
       insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on)
       select id, 2, project_id, 'by hand', 10000, false, 1 from moved`,
      [edited?.id],
    );
    expect(await accept(batch)).toEqual({
      accepted: 499,
      passages: 0,
      stale: [{ agent_id: batch.agent_ids[7], block_id: edited?.id, label: 'notes', reason: 'edited' }],
    });
    expect(await memoryOf(batch)).toEqual(
      before.map(({ notes = '' }, index) => ({ notes: index === 7 ? 'by hand' : `${notes}\nfirst\nsecond` })),
    );
    expect(await accept(batch)).toMatchObject({ accepted: 0, stale: [{ reason: 'edited' }] });
    expect(await reject(batch)).toBe(1);
    expect(await accept(batch)).toEqual({ accepted: 0, passages: 0, stale: [] });
    const [written] = await house.rows(
      `select r.based_on, r.step_number, r.batch_id, r.resolution from block_revision r join block b on b.id = r.block_id
        where b.held_by_batch_id is null and r.revision = 2 and r.run_id = $1`,
      [batch.run_ids[0]],
    );
    expect(written).toEqual({ based_on: 1, step_number: 2, batch_id: batch.id, resolution: 'clean' });
    // Like any other batch, it can be reverted.
    const { restored, refused } = await inTransaction(house.database.db, (trx) =>
      revertBatch(trx, DEFAULT_PROJECT_ID, batch.id, false),
    );
    expect([restored.length, refused]).toEqual([499, []]);
  });

  test('holds new, renamed, described and detached blocks, shows them to its own steps, and puts all in force', async () => {
    const batch = await run([
      {
        input: [
          memory({ command: 'rename', old_path: 'a', new_path: 'z' }),
          memory({ command: 'create', path: 'a', description: 'takes the label', file_text: 'new' }),
          memory({ command: 'str_replace', path: 'a', old_string: 'new', new_string: 'newer' }),
          memory({ command: 'delete', path: 'b' }),
          memory({ command: 'create', path: 'gone', description: 'soon given up' }),
          memory({ command: 'delete', path: 'gone' }),
        ].join('\n'),
        blocks: { a: 'of a', b: 'of b' },
        tools: ['memory'],
      },
    ]);
    expect(await house.rows(`select distinct state from tool_call`)).toEqual([{ state: 'succeeded' }]);
    const [last] = await house.rows<{ labels: string[] }>(
      `select array_agg(b.label order by b.label) as labels from step s cross join unnest(s.block_ids) u(id)
         join block b on b.id = u.id where s.number = 7`,
    );
    expect(last?.labels).toEqual(['a', 'z']);
    expect(await memoryOf(batch)).toEqual([{ a: 'of a', b: 'of b' }]);
    expect(await accept(batch)).toEqual({ accepted: 4, passages: 0, stale: [] });
    expect(await memoryOf(batch)).toEqual([{ a: 'newer', z: 'of a' }]);
    const events = await house.rows('select kind, label, new_label from block_event order by kind');
    expect(events).toEqual([
      { kind: 'created', label: 'a', new_label: null },
      { kind: 'detached', label: 'b', new_label: null },
      { kind: 'renamed', label: 'a', new_label: 'z' },
    ]);
    await inTransaction(house.database.db, (trx) => revertBatch(trx, DEFAULT_PROJECT_ID, batch.id, false));
    expect(await memoryOf(batch)).toEqual([{ a: 'of a', b: 'of b' }]);
  });

  test('puts edited texts in force in the name of their calls, and reverts them', async () => {
    const batch = await run([
      { input: append('more'), blocks: { notes: 'text' }, tools: ['core_memory_append'] },
      {
        input: memory({ command: 'create', path: 'plan', description: 'd', file_text: 'x' }),
        tools: ['memory'],
      },
      {
        input: memory({ command: 'rename', old_path: 'a', new_path: 'z' }),
        blocks: { a: 'of a' },
        tools: ['memory'],
      },
    ]);
    const held = await house.rows<{ draft_id: string; value: string }>(
      `select h.draft_id, n.value from held_change h join block d on d.id = h.draft_id
         join block_revision n on n.block_id = d.id and n.revision = d.head_revision`,
    );
    const before = await memoryOf(batch);
    for (const { draft_id, value } of held) {
      await inTransaction(house.database.db, (trx) =>
        editHeldChange(trx, DEFAULT_PROJECT_ID, batch.id, draft_id, {
          value: `${value} (checked)`,
          expected: value,
          assertFits: () => undefined,
        }),
      );
    }
    expect(await auditInvariants(house.database.db)).toEqual([]);
    expect(await accept(batch)).toEqual({ accepted: 3, passages: 0, stale: [] });
    expect(await memoryOf(batch)).toEqual([
      { notes: expect.stringMatching(/more.*\(checked\)$/s) },
      { plan: 'x (checked)' },
      { z: 'of a (checked)' },
    ]);
    expect(await auditInvariants(house.database.db)).toEqual([]);
    const { refused } = await inTransaction(house.database.db, (trx) =>
      revertBatch(trx, DEFAULT_PROJECT_ID, batch.id, false),
    );
    expect(refused).toEqual([]);
    expect(await memoryOf(batch)).toEqual(before);
  });

  test('writes no block that was protected or given a lower limit since', async () => {
    const batch = await run(
      [
        append('a longer text'),
        append('more'),
        memory({ command: 'delete', path: 'notes' }),
        append('x'),
      ].map((input) => ({ input, blocks: { notes: 'n' }, tools: ['core_memory_append', 'memory'] })),
    );
    const settings = async (index: number, setting: string): Promise<void> => {
      await house.rows(
        `with moved as (update block b set head_revision = 2 from agent_block k
                         where k.agent_id = $1 and b.id = k.block_id returning b.id)
         insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on)
         select r.block_id, 2, r.project_id, r.value, ${setting}, 1
           from moved join block_revision r on r.block_id = moved.id`,
        [batch.agent_ids[index]],
      );
    };
    await settings(0, '5, false');
    await settings(1, '10000, true');
    await settings(2, '10000, true');
    const { accepted, stale } = await accept(batch);
    expect(accepted).toBe(1);
    expect(
      stale.map(({ agent_id, reason }) => [batch.agent_ids.indexOf(agent_id), reason]).toSorted(),
    ).toEqual([
      [0, 'over_limit'],
      [1, 'read_only'],
      [2, 'read_only'],
    ]);
    expect(await memoryOf(batch)).toEqual([
      { notes: 'n' },
      { notes: 'n' },
      { notes: 'n' },
      { notes: 'n\nx' },
    ]);
    expect(await reject(batch)).toBe(3);
  });

  test('is settled by agent and by block', async () => {
    const batch = await run(
      ['x', 'y', 'z'].map((name) => ({
        input: append(name),
        blocks: { notes: 'n' },
        tools: ['core_memory_append'],
      })),
    );
    const [first = '', second = '', third = ''] = batch.agent_ids;
    expect(await accept(batch, { agent_ids: [first] })).toEqual({ accepted: 1, passages: 0, stale: [] });
    const [block] = await house.rows<{ id: string }>(
      'select block_id as id from agent_block where agent_id = $1',
      [second],
    );
    expect(await reject(batch, { block_ids: [block?.id ?? ''] })).toBe(1);
    expect(await memoryOf(batch)).toEqual([{ notes: 'n\nx' }, { notes: 'n' }, { notes: 'n' }]);
    await expect(accept(batch, { agent_ids: [second, third] })).rejects.toMatchObject({
      code: 'conflict',
      fields: [{ path: '/agent_ids/0', message: expect.stringMatching(/was rejected at 2/) }],
    });
    expect(await accept(batch, { agent_ids: [third] })).toEqual({
      accepted: 1,
      passages: 0,
      stale: [],
    });
    expect(await memoryOf(batch)).toEqual([{ notes: 'n\nx' }, { notes: 'n' }, { notes: 'n\nz' }]);
  });

  test('takes a new block by the id of its change', async () => {
    const create = memory({ command: 'create', path: 'plan', description: 'd', file_text: 'x' });
    const batch = await run([{ input: create, tools: ['memory'] }]);
    const [change] = await house.rows<{ id: string }>('select draft_id as id from held_change');
    expect(await accept(batch, { block_ids: [change?.id ?? ''] })).toMatchObject({ accepted: 1 });
    expect(await accept(batch, { block_ids: [change?.id ?? ''] })).toMatchObject({ accepted: 0, stale: [] });
    expect(await memoryOf(batch)).toEqual([{ plan: 'x' }]);
  });

  test('works on the memory of its requests despite concurrent edits, and two runs of an agent share the changes', async () => {
    const batch = await house.submit(
      [
        { input: append('one'), blocks: { notes: 'n' }, tools: ['core_memory_append'] },
        { input: append('two'), same_agent_as: 0 },
      ],
      { apply: 'review' },
    );
    await house.drive(worker);
    expect(await accept(batch)).toEqual({ accepted: 1, passages: 0, stale: [] });
    expect((await memoryOf(batch))[0]).toEqual({ notes: 'n\none\ntwo' });
  });

  test.each(['what the notes are for', null])(
    'works on the description of its requests (%s) despite concurrent edits',
    async (description) => {
      const rename = memory({ command: 'rename', old_path: 'notes', new_path: 'plan' });
      const batch = await house.submit([{ input: rename, blocks: { notes: 'n' }, tools: ['memory'] }], {
        apply: 'review',
      });
      const [block] = await house.rows<{ id: string }>('select block_id as id from agent_block');
      const writeDescription = (basedOn: number, text: string | null) =>
        inTransaction(house.database.db, (trx) =>
          writeBlock(trx, block?.id ?? '', basedOn, noted({ value: 'n', description: text })),
        );
      await writeDescription(1, description);
      await composeProviderBatch(worker);
      await submitProviderBatch(worker);
      await writeDescription(2, 'by a person, who takes it back');
      await house.drive(worker);
      await writeDescription(3, description);
      expect(await accept(batch)).toEqual({ accepted: 1, passages: 0, stale: [] });
      expect(await memoryOf(batch)).toEqual([{ plan: 'n' }]);
      const [head] = await house.rows(
        `select b.head_revision, r.description from block b
           join block_revision r on r.block_id = b.id and r.revision = b.head_revision where b.id = $1`,
        [block?.id],
      );
      expect(head).toEqual({ head_revision: 4, description });
    },
  );

  test('whose copy has an older description is accepted without it', async () => {
    const rename = memory({ command: 'rename', old_path: 'notes', new_path: 'plan' });
    const batch = await run([{ input: rename, blocks: { notes: 'n' }, tools: ['memory'] }]);
    await house.rows(`update block_revision set description = 'by a person, who took it back'
                       where block_id in (select draft_id from held_change)`);
    expect(await accept(batch)).toEqual({ accepted: 1, passages: 0, stale: [] });
    expect(await memoryOf(batch)).toEqual([{ plan: 'n' }]);
  });

  test('of agents that share a block: the first is accepted, the others are reported separately', async () => {
    const batch = await house.submit(
      [
        { input: append('one'), blocks: { notes: 'n' }, tools: ['core_memory_append'] },
        { input: append('two'), tools: ['core_memory_append'] },
      ],
      { apply: 'review' },
    );
    await house.rows(
      `insert into agent_block (agent_id, block_id, label, project_id, position)
       select $1, b.id, b.label, b.project_id, 0 from block b where b.label = 'notes'`,
      [batch.agent_ids[1]],
    );
    await house.drive(worker);
    const { accepted, stale } = await accept(batch);
    expect([accepted, stale.map(({ reason }) => reason)]).toEqual([1, ['edited']]);
  });

  describe('with changes of a block that was edited since', () => {
    const editedBatch = async (edited: string) => {
      const batch = await run([
        { input: append('mine'), blocks: { notes: 'one\ntwo' }, tools: ['core_memory_append'] },
      ]);
      const [block] = await house.rows<{ id: string }>('select block_id as id from agent_block');
      await inTransaction(house.database.db, (trx) =>
        writeBlock(trx, block?.id ?? '', 1, noted({ value: edited })),
      );
      const lastWrite = () =>
        house.rows(
          `select r.value, r.based_on, r.resolution from block b
             join block_revision r on r.block_id = b.id and r.revision = b.head_revision where b.id = $1`,
          [block?.id],
        );
      return { batch, lastWrite };
    };
    const stale = [expect.objectContaining({ label: 'notes', reason: 'edited' })];

    test('merges both by lines when rebased', async () => {
      const { batch, lastWrite } = await editedBatch('ONE\ntwo');
      expect(await accept(batch)).toMatchObject({ accepted: 0, stale });
      expect(await accept(batch, {}, REBASE)).toEqual({ accepted: 1, passages: 0, stale: [] });
      expect(await lastWrite()).toEqual([{ value: 'ONE\ntwo\nmine', based_on: 1, resolution: 'merged' }]);
      const { restored, refused } = await inTransaction(house.database.db, (trx) =>
        revertBatch(trx, DEFAULT_PROJECT_ID, batch.id, false),
      );
      expect([restored.length, refused]).toEqual([1, []]);
      expect(await lastWrite()).toMatchObject([{ value: 'ONE\ntwo' }]);
    });

    test('keeps them held when both changed the same lines; forced, it overwrites', async () => {
      const batch = await run([
        {
          input: call('core_memory_replace', { label: 'notes', old_content: 'two', new_content: 'my two' }),
          blocks: { notes: 'one\ntwo' },
          tools: ['core_memory_replace'],
        },
      ]);
      const [block] = await house.rows<{ id: string }>('select block_id as id from agent_block');
      await inTransaction(house.database.db, (trx) =>
        writeBlock(trx, block?.id ?? '', 1, noted({ value: 'ONE\nTWO' })),
      );
      expect(await accept(batch, {}, REBASE)).toMatchObject({ accepted: 0, stale });
      expect(await memoryOf(batch)).toEqual([{ notes: 'ONE\nTWO' }]);
      expect(await accept(batch, {}, { kind: 'force' })).toEqual({ accepted: 1, passages: 0, stale: [] });
      expect(await memoryOf(batch)).toEqual([{ notes: 'one\nmy two' }]);
      expect(await house.rows(`select 1 from block_revision where resolution = 'overwrote'`)).toHaveLength(1);
    });

    test('keeps a merged text held that is longer than the block allows', async () => {
      const { batch } = await editedBatch('ONE\ntwo');
      await house.rows(
        `update block_revision set char_limit = 10 where revision = 2 and block_id in (select block_id from agent_block)`,
      );
      expect(await accept(batch, {}, REBASE)).toMatchObject({
        accepted: 0,
        stale: [{ reason: 'over_limit' }],
      });
    });

    test('of three agents that share it: rebased, all are kept', async () => {
      const batch = await house.submit(
        ['a', 'b', 'c'].map((text, index) => ({
          input: append(text),
          ...(index === 0 ? { blocks: { notes: 'n' } } : {}),
          tools: ['core_memory_append'],
        })),
        { apply: 'review' },
      );
      await house.rows(
        `insert into agent_block (agent_id, block_id, label, project_id, position)
         select a.id, b.id, b.label, b.project_id, 0 from block b, agent a
          where b.label = 'notes' and not exists (select from agent_block k where k.agent_id = a.id)`,
      );
      await house.drive(worker);
      expect(await accept(batch, {}, REBASE)).toEqual({ accepted: 3, passages: 0, stale: [] });
      const [{ notes = '' } = {}] = await memoryOf(batch);
      expect(notes.split('\n').sort()).toEqual(['a', 'b', 'c', 'n']);
      expect(await house.rows(`select 1 from held_change where state = 'held'`)).toEqual([]);
    });
  });

  test('is not settled while it runs', async () => {
    const batch = await house.submit([{ input: 'x' }], { apply: 'review' });
    await expect(accept(batch)).rejects.toMatchObject({ code: 'batch_running' });
    await expect(reject(batch)).rejects.toMatchObject({ code: 'batch_running' });
    await house.drive(worker);
  });
});
