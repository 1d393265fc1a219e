import type {} from '../../../../test/global-setup.ts';
import { auditInvariants, inTransaction, relabelBlock, writeBlock } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import {
  answering,
  call,
  noted,
  openHouse,
  recording,
  type House,
  type SentParams,
  type SubmittedBatch,
  type SubmittedRun,
} from './house.ts';

/** A provider that refuses thinking after a changed prefix, and agents that think at every step. */
let house: House;
let sent: SentParams[];
let drive: (batch: SubmittedBatch) => Promise<void>;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: ['look', 'weigh'].map((name) => ({
      name,
      description: `Does: ${name}.`,
      input_schema: { type: 'object', properties: { n: { type: 'integer' } } },
      side_effects: 'none' as const,
      return_char_limit: 10_000,
      timeout_ms: 1_000,
    })),
  });
  const recorded = recording(house);
  sent = recorded.sent;
  const worker = house.worker({ provider: recorded.provider, tools: answering() });
  drive = async (batch) => {
    sent.length = 0;
    await house.drive(worker);
    expect(await house.rows('select stop_reason from run where batch_id = $1', [batch.id])).toEqual([
      { stop_reason: 'end_turn' },
    ]);
    expect(await house.rows(`select error from step where state <> 'done'`)).toEqual([]);
    expect(await auditInvariants(house.database.db)).toEqual([]);
  };
});
afterEach(() => house.close());

const TOOLS = ['look', 'core_memory_append'];
const look = (n: number): string => call('look', { n });
const append = (content: string): string => call('core_memory_append', { label: 'notes', content });
const thinker = (...lines: readonly string[]): SubmittedRun => ({
  input: lines.join('\n'),
  model: 'anthropic/claude-opus-5-5',
  extra: { thinking: { type: 'adaptive' } },
  blocks: { notes: 'None yet.' },
  tools: TOOLS,
});

/** Returns for each request which of its answers have thinking before them. */
const thoughtsIn = (requests: readonly SentParams[]): readonly string[] =>
  requests.map(({ messages }) =>
    messages
      .filter(({ role }) => role === 'assistant')
      .map(({ content }) => (content.some(({ type }) => type === 'thinking') ? 't' : '-'))
      .join(''),
  );
const systemsOf = (requests: readonly SentParams[]): number =>
  new Set(requests.map(({ system }) => JSON.stringify(system?.map(({ text }) => text)))).size;

describe('thinking bound to its prefix', () => {
  test.each(['opus-5-5', 'haiku-5-5', 'fable-5-2'])(
    'is sent back on %s within a run, whatever the run writes into its memory',
    async (model) => {
      const lines = [look(1), look(2), append('One.'), look(3), look(4)];
      await drive(await house.submit([{ ...thinker(...lines), model: `anthropic/claude-${model}` }]));
      expect(thoughtsIn(sent)).toEqual(['', 't', 'tt', 'ttt', 'tttt', 'ttttt']);
    },
  );

  test('is sent back on earlier models after any change', async () => {
    const lines = [look(1), append('One.'), look(2)];
    await drive(await house.submit([{ ...thinker(...lines), model: 'anthropic/claude-sonnet-4-6' }]));
    expect(thoughtsIn(sent)).toEqual(['', 't', 'tt', 'ttt']);
  });

  test('is sent back if the memory returns to an earlier state', async () => {
    const undo = call('core_memory_replace', { label: 'notes', old_content: '\nOne.', new_content: '' });
    const lines = [look(1), append('One.'), look(2), undo, look(3)];
    await drive(await house.submit([{ ...thinker(...lines), tools: [...TOOLS, 'core_memory_replace'] }]));
    expect(thoughtsIn(sent)).toEqual(['', 't', 'tt', 'ttt', 'tttt', 'ttttt']);
  });

  test.each([
    ['memory', { command: 'rename', old_path: '/memories/notes', new_path: '/memories/facts' }],
    ['memory_apply_patch', { patch: '*** Update Block: notes\n*** Move to: facts' }],
  ])('is sent back after a block that %s relabelled', async (tool, args) => {
    const lines = [look(1), call(tool, args), look(2), look(3)];
    await drive(await house.submit([{ ...thinker(...lines), tools: [...TOOLS, tool] }]));
    expect(thoughtsIn(sent)).toEqual(['', 't', 'tt', 'ttt', 'tttt']);
    expect(systemsOf(sent)).toBe(1);
  });

  test('is sent back after each new label in a batch under review', async () => {
    const rename = (from: string, to: string): string =>
      call('memory', { command: 'rename', old_path: from, new_path: to });
    const lines = [look(1), rename('notes', 'facts'), look(2), rename('facts', 'truths'), look(3)];
    const run = { ...thinker(...lines), tools: [...TOOLS, 'memory'] };
    await drive(await house.submit([run], { apply: 'review' }));
    expect(thoughtsIn(sent)).toEqual(['', 't', 'tt', 'ttt', 'tttt', 'ttttt']);
    expect(systemsOf(sent)).toBe(1);
  });

  test('is left out by the next run if a person has relabelled a block since', async () => {
    const first = await house.submit([thinker(look(1))]);
    await drive(first);
    const [block] = await house.rows<{ id: string }>('select id from block');
    await inTransaction(house.database.db, (trx) =>
      relabelBlock(
        trx,
        block!.id,
        1,
        noted({ label: 'facts', value: 'None yet.', conflict_policy: 'reject' }),
      ),
    );
    await drive(await house.submit([{ ...thinker(look(2)), agent_id: first.agent_ids[0] ?? '' }]));
    expect(thoughtsIn(sent)).toEqual(['--', '--t']);
  });

  test('is left out by the next run, which has a prompt of its own', async () => {
    const first = await house.submit([thinker(look(1))]);
    await drive(first);
    const again = { ...thinker(look(2)), agent_id: first.agent_ids[0] ?? '' };
    await drive(await house.submit([again]));
    expect(thoughtsIn(sent)).toEqual(['--', '--t']);
    const [block] = await house.rows<{ id: string }>('select id from block');
    await inTransaction(house.database.db, (trx) =>
      writeBlock(trx, block!.id, 1, noted({ value: 'Else.', conflict_policy: 'reject' })),
    );
    await drive(await house.submit([again]));
    expect(thoughtsIn(sent)).toEqual(['----', '----t']);
  });

  test('is left out by the next run if the agent has other instructions or other tools', async () => {
    const first = await house.submit([thinker(look(1))]);
    await drive(first);
    const again = { ...thinker(look(2)), agent_id: first.agent_ids[0] ?? '' };
    await house.rows(`update agent set system = 'Keep it short.'`);
    await drive(await house.submit([again]));
    expect(thoughtsIn(sent)).toEqual(['--', '--t']);
    await drive(await house.submit([{ ...again, client_tools: [] }]));
    expect(thoughtsIn(sent)).toEqual(['----', '----t']);
  });
});

test('a summary within a tool loop keeps the later steps in place, without their thinking', async () => {
  const lines = [1, 2, 3, 4, 5, 6, 7].map(look);
  house.simulator.control.addRule({
    op: 'request',
    match: { contains: '<transcript>' },
    // The step that is still shown, and the work after it.
    outcome: { type: 'script', script: 'fixed', args: { text: lines.slice(3).join('\n') } },
  });
  const compaction = { mode: 'static_buffer', limit: 10, keep: 4 } as const;
  await drive(await house.submit([{ ...thinker(...lines), agent: { compaction } }]));
  expect(await house.rows('select hidden, to_seq from conversation_summary')).toEqual([
    { hidden: 7, to_seq: 7 },
  ]);
  expect(thoughtsIn(sent)).toEqual(['', 't', 'tt', 'ttt', 'tttt', '', '--', '--t', '--tt']);
  expect(sent.slice(6).map(({ messages }) => messages.length)).toEqual([5, 7, 9]);
});

describe('the metadata in a prompt', () => {
  const searcher = (...lines: readonly string[]): SubmittedRun => ({
    ...thinker(...lines),
    tools: [...TOOLS, 'archival_memory_insert'],
  });
  const keep = (content: string): string => call('archival_memory_insert', { content });

  test('stays the same while nothing in it changes, so thinking is sent back', async () => {
    await drive(await house.submit([searcher(look(1), look(2), look(3))]));
    expect(thoughtsIn(sent)).toEqual(['', 't', 'tt', 'ttt']);
    expect(systemsOf(sent)).toBe(1);
  });

  test('stays as at the begin of the run, so thinking is sent back', async () => {
    await drive(
      await house.submit([searcher(look(1), keep('A passage.'), look(2), append('One.'), look(3))]),
    );
    expect(thoughtsIn(sent)).toEqual(['', 't', 'tt', 'ttt', 'tttt', 'ttttt']);
    expect(systemsOf(sent)).toBe(1);
  });
});
