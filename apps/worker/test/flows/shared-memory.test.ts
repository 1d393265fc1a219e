import type {} from '../../../../test/global-setup.ts';
import { inTransaction, relabelBlock, writeBlock } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import { call, noted, openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
let worker: FlowDeps;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
  worker = house.worker();
});
afterEach(() => house.close());

const REWRITES = ['memory_rethink', 'rethink_memory'] as const;
const rewrite = (tool: (typeof REWRITES)[number], value: string, parallel = false): string =>
  tool === 'memory_rethink'
    ? call(tool, { label: 'notes', new_memory: value }, parallel)
    : call(tool, { target_block_label: 'notes', new_memory: value }, parallel);

interface Block {
  readonly id: string;
  readonly revision: number;
  readonly value: string;
}

async function notesOf(agentId: string | undefined): Promise<Block> {
  const [block] = await house.rows<Block>(
    `select b.id, b.head_revision as revision, r.value from agent_block a join block b on b.id = a.block_id
       join block_revision r on r.block_id = b.id and r.revision = b.head_revision
      where a.agent_id = $1 and a.label = 'notes'`,
    [agentId],
  );
  if (block === undefined) throw new Error('The agent has no notes.');
  return block;
}

const revisionsOf = (block: Block) =>
  house.rows<{ revision: number; based_on: number | null; value: string; by_run: boolean }>(
    'select revision, based_on, value, run_id is not null as by_run from block_revision where block_id = $1 order by revision',
    [block.id],
  );

/** Sends ready requests, which are processed while the test goes on. */
async function send(): Promise<void> {
  await composeProviderBatch(worker);
  await submitProviderBatch(worker);
}

async function personWrites(block: Block, value: string, rest: { description?: string } = {}): Promise<void> {
  const revision = await inTransaction(house.database.db, (trx) =>
    writeBlock(trx, block.id, block.revision, noted({ value, ...rest })),
  );
  expect(revision).toBe(block.revision + 1);
}

/** Reads the texts of the tool results that a run received, in order. */
async function resultsOf(batch: SubmittedBatch, index = 0): Promise<{ text: string; is_error: boolean }[]> {
  const rows = await house.rows<{ content: { type: string; content?: unknown; is_error?: boolean }[] }>(
    "select content from message where run_id = $1 and role = 'user' order by seq",
    [batch.run_ids[index]],
  );
  return rows
    .flatMap((row) => row.content)
    .filter((part) => part.type === 'tool_result')
    .map((part) => ({ text: JSON.stringify(part.content), is_error: part.is_error === true }));
}

describe('a block edited during the request', () => {
  test.each(REWRITES)(
    'is not overwritten by %s: the model is told, and its next attempt is written',
    async (tool) => {
      const batch = await house.submit([
        {
          input: `${rewrite(tool, 'likes nuts')}\n${rewrite(tool, 'likes nuts, but is allergic')}`,
          blocks: { notes: 'likes food' },
          tools: [tool],
        },
      ]);
      const block = await notesOf(batch.agent_ids[0]);
      await send();
      await personWrites(block, 'ALLERGIC TO NUTS');
      await house.drive(worker);
      expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn', step_number: 3 }]);
      expect(await revisionsOf(block)).toEqual([
        { revision: 1, based_on: null, value: 'likes food', by_run: false },
        { revision: 2, based_on: 1, value: 'ALLERGIC TO NUTS', by_run: false },
        { revision: 3, based_on: 2, value: 'likes nuts, but is allergic', by_run: true },
      ]);
      const [refused, written] = await resultsOf(batch);
      expect(refused).toMatchObject({ is_error: true });
      expect(refused?.text).toContain('changed by a person');
      expect(refused?.text).toContain('ALLERGIC TO NUTS');
      expect(written).toMatchObject({ is_error: false });
      const calls = await house.rows('select state from tool_call order by step_number');
      expect(calls).toEqual([{ state: 'failed' }, { state: 'succeeded' }]);
    },
  );

  test('takes appends and replacements on top of the edit', async () => {
    const batch = await house.submit([
      {
        input: [
          call('core_memory_append', { label: 'notes', content: 'appended' }),
          call('memory_replace', { label: 'notes', old_string: 'tea', new_string: 'coffee' }, true),
        ].join('\n'),
        blocks: { notes: 'likes tea' },
        tools: ['core_memory_append', 'memory_replace'],
      },
    ]);
    const block = await notesOf(batch.agent_ids[0]);
    await send();
    await personWrites(block, 'likes tea\nedited by hand');
    await house.drive(worker);
    expect(await revisionsOf(block)).toMatchObject([
      { revision: 1 },
      { revision: 2, based_on: 1 },
      { revision: 3, based_on: 1, value: 'likes tea\nedited by hand\nappended' },
      { revision: 4, based_on: 3, value: 'likes coffee\nedited by hand\nappended' },
    ]);
  });

  test('is not overwritten either by a rewrite after an append of the same answer', async () => {
    const batch = await house.submit([
      {
        input: [
          call('core_memory_append', { label: 'notes', content: 'appended' }),
          rewrite('memory_rethink', 'all new', true),
        ].join('\n'),
        blocks: { notes: 'old' },
        tools: ['core_memory_append', 'memory_rethink'],
      },
    ]);
    const block = await notesOf(batch.agent_ids[0]);
    await send();
    await personWrites(block, 'edited by hand');
    await house.drive(worker);
    expect(await notesOf(batch.agent_ids[0])).toMatchObject({
      revision: 3,
      value: 'edited by hand\nappended',
    });
    const [, refused] = await resultsOf(batch);
    expect(refused).toMatchObject({ is_error: true });
    expect(refused?.text).toContain('edited by hand');
  });

  test('may be rewritten if the edit left its value alone, and the write names its base revision', async () => {
    const batch = await house.submit([
      {
        input: rewrite('memory_rethink', 'new'),
        blocks: { notes: 'old' },
        tools: ['memory_rethink'],
      },
    ]);
    const block = await notesOf(batch.agent_ids[0]);
    await send();
    await personWrites(block, 'old', { description: 'What to know.' });
    await house.drive(worker);
    expect(await revisionsOf(block)).toMatchObject([
      { revision: 1 },
      { revision: 2, based_on: 1, value: 'old' },
      { revision: 3, based_on: 1, value: 'new' },
    ]);
  });
});

describe('blocks whose labels are swapped during the request', () => {
  test.each(['auto', 'review'] as const)(
    'are not confused: the model is told, and next writes under the new label (%s)',
    async (apply) => {
      const rethink = (label: string) => call('memory_rethink', { label, new_memory: 'of this week' });
      const batch = await house.submit(
        [
          {
            input: `${rethink('this_week')}\n${rethink('last_week')}`,
            blocks: { this_week: 'this', last_week: 'last' },
            tools: ['memory_rethink'],
          },
        ],
        { apply },
      );
      const ids = await house.rows<{ id: string }>('select id from block order by label desc');
      await send();
      const relabel = async (id: string | undefined, label: string) =>
        inTransaction(house.database.db, (trx) => relabelBlock(trx, id ?? '', 1, noted({ label })));
      await relabel(ids[0]?.id, 'spare');
      await relabel(ids[1]?.id, 'this_week');
      await relabel(ids[0]?.id, 'last_week');
      await house.drive(worker);
      const written = await house.rows(
        `select b.label, r.value, r.revision, b.held_by_batch_id is not null as is_held from block b
           join block_revision r on r.block_id = b.id where r.revision > 1 or b.held_by_batch_id is null
          order by b.label desc, r.revision`,
      );
      expect(written).toEqual([
        { label: 'this_week', value: 'last', revision: 1, is_held: false },
        { label: 'last_week', value: 'this', revision: 1, is_held: false },
        { label: 'last_week', value: 'of this week', revision: 2, is_held: apply === 'review' },
      ]);
      const [refused, done] = await resultsOf(batch);
      expect(refused).toMatchObject({ is_error: true });
      expect(refused?.text).toContain("'this_week' is called 'last_week' now");
      expect(done).toMatchObject({ is_error: false });
    },
  );
});

describe('a block created after the request', () => {
  test.each([
    ['auto', 'merge'],
    ['auto', 'last_write'],
    ['review', 'merge'],
  ] as const)('is not silently replaced by a rewrite (%s, %s)', async (apply, policy) => {
    const plan = (new_memory: string): string => call('memory_rethink', { label: 'plan', new_memory });
    await house.submit(
      [
        { input: plan('by one'), tools: ['memory', 'memory_rethink'], isolated: true },
        { input: plan('by two'), same_agent_as: 0, isolated: true },
      ],
      { apply },
    );
    await house.drive(
      house.worker({
        hooks: async (point) => {
          if (point !== 'ingest.before_chunk') return;
          await house.rows('update block set conflict_policy = $1', [policy]);
        },
        settings: { chunk_lines: 1, chunks_in_flight: 1 },
      }),
    );
    const [made, written] = await house.rows<{ value: string; resolution: string }>(
      `select r.value, r.resolution from block b join block_revision r on r.block_id = b.id
        where b.label = 'plan' order by r.revision`,
    );
    const second = made?.value === 'by one' ? 'by two' : 'by one';
    expect(written).toEqual(
      policy === 'merge'
        ? { value: `${made?.value}\n${second}`, resolution: 'merged' }
        : { value: second, resolution: 'overwrote' },
    );
  });
});

describe('a block without other editors', () => {
  test('is rewritten as often as an answer asks', async () => {
    const batch = await house.submit([
      {
        input: [
          rewrite('memory_rethink', 'first'),
          call('core_memory_append', { label: 'notes', content: 'more' }, true),
          rewrite('memory_rethink', 'second', true),
        ].join('\n'),
        blocks: { notes: 'old' },
        tools: ['core_memory_append', 'memory_rethink'],
      },
    ]);
    const block = await notesOf(batch.agent_ids[0]);
    await house.drive(worker);
    expect(await revisionsOf(block)).toMatchObject([
      { revision: 1 },
      { revision: 2, based_on: 1, value: 'first' },
      { revision: 3, based_on: 2, value: 'first\nmore' },
      { revision: 4, based_on: 3, value: 'second' },
    ]);
  });
});

describe('a block that two agents share', () => {
  test('keeps the first rewrite of a chunk; the other agent is told, and decides again', async () => {
    const input = (name: string): string =>
      `${rewrite('memory_rethink', `written by ${name}`)}\n${rewrite('memory_rethink', `decided anew by ${name}`)}`;
    const batch = await house.submit([
      { input: input('one'), blocks: { notes: 'old' }, tools: ['memory_rethink'] },
      { input: input('two'), blocks: { other: '' }, tools: ['memory_rethink'] },
    ]);
    const block = await notesOf(batch.agent_ids[0]);
    await house.rows(
      `insert into agent_block (agent_id, block_id, label, project_id, position)
       select $1, b.id, b.label, b.project_id, 9 from block b where b.id = $2`,
      [batch.agent_ids[1], block.id],
    );
    await house.drive(worker);
    const firsts = [(await resultsOf(batch, 0))[0], (await resultsOf(batch, 1))[0]];
    expect(firsts.map((first) => first?.is_error).toSorted()).toEqual([false, true]);
    const refused = firsts.find((first) => first?.is_error);
    expect(refused?.text).toContain('changed by another run');
    expect(refused?.text).toMatch(/based on the present text:\\nwritten by (one|two)/);
    // Every write was based on the value in force before it.
    const revisions = await revisionsOf(block);
    for (const { revision, based_on } of revisions.slice(1)) expect(based_on).toBe(revision - 1);
  });
});
