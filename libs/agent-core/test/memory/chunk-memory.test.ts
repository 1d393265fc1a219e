import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import {
  editedBlocks,
  memoryNeeds,
  memoryOfStep,
  openBlocks,
  recallTexts,
} from '../../src/memory/chunk-memory.ts';
import type { DraftLabels } from '../../src/memory/draft.ts';
import { labelsInUse } from '../../src/memory/labels-in-use.ts';
import {
  applyEffect,
  heldBy,
  type RememberingRun,
  type RunWithCalls,
  type ShownBlock,
  type StoredDraft,
  type StoredMemory,
} from '../../src/memory/open-blocks.ts';
import {
  answerStoreCalls,
  readStoreCalls,
  storeCallsOf,
  type StoreAnswers,
} from '../../src/memory/store-answers.ts';
import type { PlannedCall } from '../../src/model/planned-call.ts';
import { makeCall } from '../decide/facts.ts';
import { makeTool } from '../tools/tools.ts';
import { makeBlock } from './blocks.ts';
import { diff3 } from './diff3.ts';

const run = (rest: Partial<RememberingRun> = {}): RememberingRun => ({
  id: 'run1',
  project_id: 'project',
  batch_id: 'batch',
  batch_apply: 'auto',
  agent_id: 'agent',
  conversation_id: 'conversation',
  step_number: 1,
  ...rest,
});
const call = (tool_name: string, args: JsonObject): PlannedCall =>
  makeCall({ kind: 'memory', tool_name, args });
const rethink = (label: string, new_memory: string) => call('memory_rethink', { label, new_memory });
const append = (label: string, content: string) => call('core_memory_append', { label, content });
const command = (args: JsonObject) => call('memory', args);

const human = makeBlock('human', 'Nothing.', { block_id: 'h' });
const rules = makeBlock('rules', 'Be kind.', { block_id: 'r' });
const stored = (agent_id: string, block = human, rest: Partial<StoredDraft> = {}) => ({
  ...block,
  agent_id,
  conflict_policy: 'reject' as const,
  writer_run_id: null,
  ...rest,
});
const shownTo = (run_id: string, block = human, rest: Partial<ShownBlock> = {}): ShownBlock => ({
  run_id,
  block_id: block.block_id,
  revision: block.revision,
  label: block.label,
  value: null,
  description: null,
  ...rest,
});
const memory = (rest: Partial<StoredMemory> = {}): StoredMemory => ({
  locked: [stored('agent'), stored('agent', rules)],
  shown: [shownTo('run1'), shownTo('run1', rules)],
  labels: [],
  drafts: [],
  ...rest,
});

/** Opens the memory of runs; `carryOut` carries out a call of a run. */
function open(
  rows: StoredMemory,
  runs: readonly RunWithCalls[] = [{ run: run(), calls: [] }],
  store: StoreAnswers = new Map(),
  writable_labels: readonly string[] | null = null,
) {
  let made = 0;
  const newId = () => `new${++made}`;
  const blocks = openBlocks(runs, rows, newId);
  const tools = [makeTool('memory', {})];
  const carryOut = (of: RememberingRun, made: PlannedCall) =>
    memoryOfStep(blocks, store, of, { tools, writable_labels }, { newId, diff3 }).carryOut(made);
  return { blocks, carryOut, held: (of = run()) => heldBy(blocks, of) };
}

describe('the needs of memory calls', () => {
  const move = '*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch';
  test.each<[string, PlannedCall, boolean, boolean]>([
    ['an edit of a text', append('human', 'x'), false, false],
    ['a rewrite, which may make a block', rethink('human', 'x'), true, false],
    ['a new block', command({ command: 'create' }), true, false],
    ['a new label', command({ command: 'rename' }), true, true],
    ['a patch of a text', call('memory_apply_patch', { patch: 'x' }), true, false],
    ['a patch that is no text', call('memory_apply_patch', { patch: 1 }), true, false],
    ['a patch that moves', call('memory_apply_patch', { patch: move }), true, true],
  ])('%s', (_what, made, agents, labels) => {
    expect(memoryNeeds([{ run: run(), calls: [made] }])).toEqual({ agents, labels, reviewed: [] });
    const reviewed = run({ batch_apply: 'review' });
    expect(memoryNeeds([{ run: reviewed, calls: [made] }])).toEqual({
      agents: true,
      labels,
      reviewed: [reviewed],
    });
  });
});

describe('calls on blocks', () => {
  test('see the writes of earlier calls, and name their base revision', () => {
    const { carryOut, held } = open(memory());
    const writer = {
      project_id: 'project',
      batch_id: 'batch',
      run_id: 'run1',
      agent_id: 'agent',
      step_number: 1,
    };
    const first = carryOut(run(), { ...append('human', 'A'), tool_use_id: 'a' });
    expect(first).toEqual({
      outcome: { ok: true, result: 'Nothing.\nA' },
      changes: [
        {
          ...{ ...writer, tool_use_id: 'a', held: false, kind: 'revised', block_id: 'h', revision: 4 },
          ...{ based_on_revision: 3, value: 'Nothing.\nA', description: null, resolution: 'clean' },
        },
      ],
    });
    expect(carryOut(run(), append('human', 'B'))).toMatchObject({
      outcome: { result: 'Nothing.\nA\nB' },
      changes: [{ revision: 5, based_on_revision: 4 }],
    });
    expect(held()[0]).toMatchObject({ current: { revision: 5 }, changed_by: 'run', seen: { revision: 5 } });
  });

  test('of two runs that share a block are judged by its policy', () => {
    const other = run({ id: 'run2', agent_id: 'other' });
    const rows = memory({
      locked: [stored('agent'), stored('other')],
      shown: [shownTo('run1'), shownTo('run2')],
    });
    const { carryOut } = open(
      rows,
      [run(), other].map((of) => ({ run: of, calls: [] })),
    );
    expect(carryOut(run(), append('human', 'A')).outcome.ok).toBe(true);
    expect(carryOut(other, append('human', 'B'))).toMatchObject({
      outcome: { ok: false, result: expect.stringContaining('another run') as string },
      changes: [],
    });
  });

  test('are judged by the text that the request showed', () => {
    const rows = memory({ shown: [shownTo('run1', human, { revision: 2, value: 'Older.' })] });
    expect(open(rows).held()).toMatchObject([
      { seen: { revision: 2, value: 'Older.' }, changed_by: 'person' },
      { seen: null },
    ]);
    expect(open(rows).carryOut(run(), append('human', 'A')).outcome.ok).toBe(false);
  });

  test('create, describe, rename and detach blocks', () => {
    const { carryOut, held } = open(memory());
    const created = carryOut(
      run(),
      command({ command: 'create', path: '/memories/new', description: 'd', file_text: 't' }),
    );
    expect(created.changes).toMatchObject([
      { kind: 'created', block_id: 'new1', label: 'new', description: 'd', value: 't', char_limit: 100_000 },
    ]);
    expect(
      carryOut(run(), command({ command: 'rename', path: '/memories/human', description: 'who' })).changes,
    ).toMatchObject([
      {
        kind: 'revised',
        block_id: 'h',
        revision: 4,
        value: 'Nothing.',
        description: 'who',
        resolution: 'clean',
      },
    ]);
    expect(
      carryOut(run(), command({ command: 'rename', old_path: '/memories/new', new_path: '/memories/newer' }))
        .changes,
    ).toMatchObject([{ kind: 'renamed', block_id: 'new1', label: 'new', new_label: 'newer' }]);
    expect(carryOut(run(), command({ command: 'delete', path: '/memories/human' })).changes).toMatchObject([
      { kind: 'detached', block_id: 'h', label: 'human' },
    ]);
    expect(held().map(({ current }) => current.label)).toEqual(['rules', 'newer']);
  });

  test('may be made by a run that was shown no block', () => {
    const { carryOut } = open(memory({ shown: [] }));
    expect(carryOut(run(), command({ command: 'delete', path: '/memories/human' })).changes).toMatchObject([
      { kind: 'detached', block_id: 'h' },
    ]);
  });

  test('never write a block that is not locked', () => {
    const { blocks } = open(memory({ locked: [] }));
    const effect = { kind: 'detach', block_id: 'h', label: 'human' } as const;
    expect(() =>
      applyEffect(blocks, effect, { ...run(), run_id: 'run1', tool_use_id: 'a', held: false }),
    ).toThrow('not locked');
    expect(open(memory({ locked: [] })).held()).toEqual([]);
  });
});

describe('a label in use', () => {
  const labels = [
    { agent_id: 'agent', block_id: 'h', label: 'human' },
    { agent_id: 'other', block_id: 'h', label: 'human' },
    { agent_id: 'other', block_id: 'x', label: 'theirs' },
  ];
  const rename = (old_path: string, new_path: string) => command({ command: 'rename', old_path, new_path });

  test('by another agent that shares the block refuses the new label, until that agent detaches it', () => {
    const other = run({ id: 'run2', agent_id: 'other' });
    const theirs = makeBlock('theirs', 'x', { block_id: 'x' });
    const locked = [stored('agent'), stored('other'), stored('other', theirs)];
    const shown = [shownTo('run1'), shownTo('run2'), shownTo('run2', theirs)];
    const { carryOut } = open(
      memory({ labels, locked, shown }),
      [run(), other].map((of) => ({ run: of, calls: [] })),
    );
    expect(carryOut(run(), rename('/memories/human', '/memories/theirs')).outcome.ok).toBe(false);
    expect(carryOut(other, rename('/memories/theirs', '/memories/free')).outcome.ok).toBe(true);
    expect(carryOut(other, command({ command: 'delete', path: '/memories/free' })).outcome.ok).toBe(true);
    expect(carryOut(run(), rename('/memories/human', '/memories/free')).outcome.ok).toBe(true);
  });

  test('is judged by the changes of the call so far', () => {
    const inUse = labelsInUse(labels);
    const drafted = (rest: Partial<DraftLabels>) => ({
      detached: new Set(['x']),
      renamed: new Map<string, string>(),
      ...rest,
    });
    expect(inUse.isTaken('agent', 'h', 'theirs', drafted({}))).toBe(true);
    expect(inUse.isTaken('other', 'h', 'theirs', drafted({}))).toBe(false);
    expect(inUse.isTaken('agent', 'h', 'theirs', drafted({ renamed: new Map([['x', 'free']]) }))).toBe(false);
    expect(inUse.isTaken('agent', 'h', 'free', drafted({ renamed: new Map([['x', 'free']]) }))).toBe(true);
  });

  test('by a block that was just created counts as well', () => {
    const { carryOut } = open(memory({ labels: [] }));
    const create = (path: string) => command({ command: 'create', path, description: '', file_text: '' });
    expect(carryOut(run(), create('/memories/one')).outcome.ok).toBe(true);
    expect(carryOut(run(), create('/memories/two')).outcome.ok).toBe(true);
    expect(carryOut(run(), rename('/memories/one', '/memories/two')).outcome.ok).toBe(false);
  });
});

describe('a step that was carried out in part before', () => {
  const done = [append('human', 'A')];

  test('knows the texts that it wrote itself', () => {
    const runs = [{ run: run(), calls: [], done }];
    const { blocks, held } = open(memory({ shown: [shownTo('run1')] }), runs);
    expect(editedBlocks(blocks, runs)).toEqual([
      { run_id: 'run1', step_number: 1, block_id: 'h', shown: 3 },
      { run_id: 'run1', step_number: 1, block_id: 'r', shown: 0 },
    ]);
    recallTexts(blocks, [{ run_id: 'run1', block_id: 'h', revision: 7, value: 'Nothing.\nA' }]);
    expect(held()[0]?.seen).toEqual({ revision: 7, value: 'Nothing.\nA' });
    expect(
      editedBlocks(blocks, [
        { run: run(), calls: [] },
        { run: run({ agent_id: 'z' }), calls: [], done },
      ]),
    ).toEqual([]);
  });

  test('goes on with the present labels, where a call may have moved a label', () => {
    const known = (made: PlannedCall, shown = memory().shown) =>
      open(memory({ shown }), [{ run: run(), calls: [], done: [made] }]).blocks.known.get('run1');
    expect(known(done[0]!)).toEqual(
      new Map([
        ['human', 'h'],
        ['rules', 'r'],
      ]),
    );
    expect(known(command({}))).toEqual(
      new Map([
        ['human', null],
        ['rules', null],
      ]),
    );
    expect(known(command({}), [])).toEqual(new Map());
  });
});

describe('a batch under review', () => {
  const reviewed = run({ batch_apply: 'review' });
  const draft = (rest: Partial<StoredDraft>): StoredDraft => ({
    ...stored('agent', { ...human, block_id: 'd', value: 'Held.' }),
    ...{ batch_id: 'batch', stands_for: 'h', kind: 'revised', ...rest },
  });
  const review = (rows: Partial<StoredMemory> = {}) => open(memory(rows), [{ run: reviewed, calls: [] }]);

  test('writes copies of the shown blocks, each stored before its first change', () => {
    const { carryOut, held } = review({
      shown: [
        shownTo('run1', human, { revision: 2, value: 'Older.', description: 'old' }),
        shownTo('run1', rules),
      ],
    });
    expect(
      held(reviewed).map(({ current, seen }) => [current.block_id, current.value, seen?.revision]),
    ).toEqual([
      ['new1', 'Older.', 1],
      ['new2', 'Be kind.', 1],
    ]);
    const [copy, change] = carryOut(reviewed, append('human', 'A')).changes;
    expect(copy).toMatchObject({
      ...{
        kind: 'copied',
        block_id: 'new1',
        copy_of: 'h',
        base_revision: 2,
        base_label: 'human',
        held: true,
      },
      ...{ value: 'Older.', description: 'old' },
    });
    expect(change).toMatchObject({ kind: 'revised', block_id: 'new1', revision: 2, value: 'Older.\nA' });
    expect(carryOut(reviewed, append('human', 'B')).changes).toHaveLength(1);
  });

  test('goes on with the drafts of its agent', () => {
    const { held, blocks } = review({
      locked: [
        stored('agent'),
        stored('agent', rules),
        stored('agent', makeBlock('old', '', { block_id: 'o' })),
      ],
      shown: [shownTo('run1', { ...human, block_id: 'd' }), shownTo('run1', rules)],
      drafts: [
        draft({}),
        draft({ block_id: 'gone', stands_for: 'o', kind: 'detached' }),
        draft({ block_id: 'made', stands_for: 'made', kind: 'created', label: 'made' }),
      ],
    });
    expect(held(reviewed).map(({ current, seen }) => [current.block_id, current.value, seen?.value])).toEqual(
      [
        ['d', 'Held.', 'Held.'],
        ['new1', 'Be kind.', 'Be kind.'],
        ['made', 'Held.', undefined],
      ],
    );
    expect(blocks.known.get('run1')).toEqual(
      new Map([
        ['human', 'd'],
        ['rules', 'new1'],
      ]),
    );
  });

  test('shows a draft of a block that the request showed itself, for a run that was sealed before', () => {
    const { held } = review({ locked: [stored('agent')], shown: [shownTo('run1')], drafts: [draft({})] });
    expect(held(reviewed)).toMatchObject([
      { current: { block_id: 'd' }, seen: { revision: 1, value: 'Nothing.' } },
    ]);
  });

  test('shares the drafts of an agent between its runs', () => {
    const second = run({ batch_apply: 'review', id: 'run2' });
    const { blocks, carryOut, held } = open(
      memory({ shown: [shownTo('run1'), shownTo('run2')] }),
      [reviewed, second].map((of) => ({ run: of, calls: [] })),
    );
    carryOut(reviewed, append('human', 'A'));
    expect(held(second)[0]).toMatchObject({ current: { value: 'Nothing.\nA' }, seen: { value: 'Nothing.' } });
    expect(
      carryOut(reviewed, command({ command: 'create', path: '/memories/n', description: '', file_text: '' }))
        .changes,
    ).toMatchObject([{ kind: 'created', held: true }]);
    expect(blocks.labels.isTaken('agent', 'h', 'n', { detached: new Set(), renamed: new Map() })).toBe(false);
  });

  test('knows no label of an agent that was shown no block', () => {
    const { held, blocks } = review({ locked: [], shown: [], drafts: [] });
    expect(held(reviewed)).toEqual([]);
    expect(blocks.known.get('run1')).toEqual(new Map());
  });
});

describe('calls that the store answers', () => {
  const insert = call('archival_memory_insert', { content: 'text', tags: ['t'] });
  const search = call('archival_memory_search', { query: 'x' });
  const look = call('conversation_search', { query: 'y' });
  const broken = call('archival_memory_insert', {});
  const asked = storeCallsOf([{ run: run(), calls: [insert, search, rethink('human', 'x'), look, broken] }]);

  test('are told from changes of blocks, and ask for their own step and agent', () => {
    expect(asked.map(({ call: { tool_name } }) => tool_name)).toHaveLength(4);
    const questions = readStoreCalls(asked, new Map([['agent', 'Europe/Berlin']]));
    expect(questions.passages).toMatchObject([
      {
        call: search,
        search: { query: 'x', run_id: 'run1', step_number: 1, agent_id: 'agent', batch_id: 'batch' },
      },
    ]);
    expect(questions.messages).toMatchObject([
      { call: look, search: { query: 'y', conversation_id: 'conversation' } },
    ]);
    expect([...questions.answered.keys()]).toEqual([insert, broken]);
  });

  test('are answered with the hits, and keep passages', () => {
    const said = { role: 'user' as const, content: 'said', created_at: new Date(0), rank: null };
    const store = answerStoreCalls(readStoreCalls(asked, new Map()), [], [[said]], new Date(0));
    const { carryOut } = open(memory(), undefined, store);
    expect(carryOut(run(), insert).changes).toMatchObject([
      { kind: 'kept', passage_id: 'new1', content: 'text', tags: ['t'], run_id: 'run1' },
    ]);
    expect(carryOut(run(), search)).toMatchObject({
      outcome: { ok: true, result: expect.stringContaining('No results found.') as string },
      changes: [],
    });
    expect(carryOut(run(), look).outcome.result).toContain('said');
    expect(carryOut(run(), broken)).toMatchObject({ outcome: { ok: false }, changes: [] });
  });

  test('find nothing where the store gave no list', () => {
    const store = answerStoreCalls(readStoreCalls(asked, new Map()), [], [], new Date(0));
    expect(store.get(look)?.outcome.result).toContain('No results found.');
  });
});
