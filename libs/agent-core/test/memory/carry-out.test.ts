import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import {
  carryOutMemoryCall,
  type HeldBlock,
  type MemoryCallOptions,
  type MemoryCallOutcome,
} from '../../src/memory/carry-out.ts';
import {
  CONFLICT_POLICIES,
  resolveWrite,
  type BlockWriter,
  type ConflictPolicy,
} from '../../src/memory/conflict.ts';
import { makeBlock } from './blocks.ts';
import { diff3 } from './diff3.ts';

const options: MemoryCallOptions = {
  newBlockId: () => 'new-1',
  may_create: false,
  isLabelTaken: () => false,
  known: new Map(),
  writable_labels: null,
  diff3,
};
const SHOWN = 'Name: Ann\nCity: Oslo\nLikes: tea';

/** Makes a block that the request showed as `SHOWN` and that is now `current`. */
function held(
  policy: ConflictPolicy,
  current: string = SHOWN,
  label = 'human',
  changed_by: BlockWriter = 'run',
): HeldBlock {
  const revision = current === SHOWN ? 3 : 4;
  return {
    current: makeBlock(label, current, { revision }),
    seen: { revision: 3, value: SHOWN },
    policy,
    changed_by,
  };
}

function call(
  tool: string,
  args: JsonObject,
  blocks: readonly HeldBlock[],
  rest: Partial<MemoryCallOptions> = {},
): MemoryCallOutcome {
  return carryOutMemoryCall(tool, args, blocks, { ...options, ...rest });
}

const append = (label: string, content: string) => ['core_memory_append', { label, content }] as const;
const replace = (label: string, old_string: string, new_string: string) =>
  ['memory_replace', { label, old_string, new_string }] as const;
const rethink = (label: string, new_memory: string) => ['memory_rethink', { label, new_memory }] as const;

describe('a write of a block without other writers', () => {
  test.each(CONFLICT_POLICIES)('is written under %s', (policy) => {
    const { outcome, effects, held: left } = call(...replace('human', 'Oslo', 'Rome'), [held(policy)]);
    const value = 'Name: Ann\nCity: Rome\nLikes: tea';
    expect(outcome).toEqual({ ok: true, result: value });
    expect(effects).toEqual([
      {
        kind: 'write',
        block_id: held(policy).current.block_id,
        label: 'human',
        based_on_revision: 3,
        value,
        resolution: 'clean',
      },
    ]);
    expect(left[0]).toMatchObject({ current: { revision: 4, value }, seen: { revision: 4, value }, policy });
  });

  test.each(CONFLICT_POLICIES)('and the next call of the step builds on it under %s', (policy) => {
    const first = call(...append('human', 'Age: 5'), [held(policy)]);
    const second = call(...replace('human', 'Age: 5', 'Age: 6'), first.held);
    expect(second.effects).toMatchObject([
      { based_on_revision: 4, value: `${SHOWN}\nAge: 6`, resolution: 'clean' },
    ]);
    expect(second.held[0]).toMatchObject({ current: { revision: 5 } });
  });

  test('touches no other block, however stale the agent’s view of it', () => {
    const other = held('last_write', 'changed by others', 'other');
    const { effects, held: left } = call(...append('human', 'x'), [held('last_write'), other]);
    expect(effects.map((effect) => effect.label)).toEqual(['human']);
    expect(left[1]).toBe(other);
  });

  test('that reverts a change of others is a write like any other', () => {
    const { effects } = call(...rethink('human', SHOWN), [held('last_write', 'changed by others')]);
    expect(effects).toMatchObject([{ value: SHOWN, resolution: 'overwrote' }]);
  });
});

describe('a write of a block that another writer has changed since', () => {
  const theirs = `${SHOWN}\nPet: cat`;

  test('is refused under reject, with advice', () => {
    const blocks = [held('reject', theirs)];
    const { outcome, effects, held: left } = call(...append('human', 'Age: 5'), blocks);
    expect(outcome).toEqual({
      ok: false,
      result:
        "Error executing function core_memory_append: ValueError: Memory block 'human' was changed by another run " +
        'after you last saw it. Nothing was written. The next message shows the change. Call again, based on the present ' +
        `text:\n${theirs}`,
    });
    const byPerson = held('reject', theirs, 'human', 'person');
    expect(call(...append('human', 'Age: 5'), [byPerson]).outcome.result).toContain('changed by a person');
    expect(effects).toEqual([]);
    expect(left).toBe(blocks);
  });

  test('is merged under merge, and the model reads the result', () => {
    const merged = 'Name: Ann\nCity: Rome\nLikes: tea\nPet: cat';
    const { outcome, effects } = call(...replace('human', 'Oslo', 'Rome'), [held('merge', theirs)]);
    expect(effects).toMatchObject([{ based_on_revision: 3, value: merged, resolution: 'merged' }]);
    expect(outcome.result).toBe(
      `Memory block 'human' was changed by someone else after you last saw it; your change was merged with theirs. It now reads:\n${merged}`,
    );
  });

  test('that their text already holds writes nothing under merge, and the model reads the block', () => {
    const now = theirs.replace('Oslo', 'Rome');
    const { outcome, effects } = call(...replace('human', 'Oslo', 'Rome'), [held('merge', now)]);
    expect(effects).toEqual([]);
    expect(outcome).toEqual({
      ok: true,
      result: `Memory block 'human' was changed by someone else after you last saw it; nothing of your change was left to write. It now reads:\n${now}`,
    });
  });

  test('keeps the line numbers that the model saw, under merge', () => {
    const shifted = `new first line\n${SHOWN}`;
    const { effects } = call('memory_insert', { label: 'human', new_string: 'Age: 5', insert_line: 1 }, [
      held('merge', shifted),
    ]);
    expect(effects).toMatchObject([{ value: 'new first line\nName: Ann\nAge: 5\nCity: Oslo\nLikes: tea' }]);
  });

  test('is refused under merge where both changed the same lines', () => {
    const { outcome, effects } = call(...replace('human', 'Oslo', 'Rome'), [
      held('merge', SHOWN.replace('Oslo', 'Bergen')),
    ]);
    expect(outcome.result).toContain('in the same lines as you ("City: Oslo"). Nothing was written.');
    expect(effects).toEqual([]);
  });

  test('is refused under merge where the merged text would be too long', () => {
    const block = held('merge', theirs);
    const short = { ...block, current: { ...block.current, char_limit: theirs.length + 3 } };
    expect(call(...append('human', 'x'), [short]).outcome.ok).toBe(true);
    expect(call(...append('human', 'xyz'), [short])).toMatchObject({
      outcome: { ok: false, result: expect.stringContaining('1 more than its limit') },
      effects: [],
    });
  });

  test('of a part reverts nothing under last_write', () => {
    expect(call(...append('human', 'Age: 5'), [held('last_write', theirs)]).effects).toMatchObject([
      { based_on_revision: 4, value: `${theirs}\nAge: 5`, resolution: 'clean' },
    ]);
    expect(call(...replace('human', 'Oslo', 'Rome'), [held('last_write', 'gone')]).outcome.ok).toBe(false);
  });

  test('of the whole text writes over it under last_write, and says so in its effect', () => {
    for (const [tool, args] of [
      rethink('human', 'new'),
      ['rethink_memory', { target_block_label: 'human', new_memory: 'new' }],
      ['rethink_user_memory', { new_memory: 'new' }],
    ] as const) {
      expect(call(tool, args, [held('last_write', theirs)]).effects).toMatchObject([
        { value: 'new', resolution: 'overwrote' },
      ]);
    }
  });

  test('to the same text is done already', () => {
    for (const policy of CONFLICT_POLICIES) {
      const { outcome, effects, held: left } = call(...rethink('human', theirs), [held(policy, theirs)]);
      expect({ ok: outcome.ok, effects }).toEqual({ ok: true, effects: [] });
      expect(call(...append('human', 'x'), left).effects).toMatchObject([{ value: `${theirs}\nx` }]);
    }
  });

  test('a change that was taken back does not count', () => {
    const back = { ...held('reject'), current: makeBlock('human', SHOWN, { revision: 9 }) };
    expect(call(...append('human', 'x'), [back]).effects).toMatchObject([{ resolution: 'clean' }]);
  });

  test('a second call of the step merges again, and a rewrite in it drops none of their lines', () => {
    const first = call(...append('human', 'Age: 5'), [held('merge', theirs)]);
    expect(first.effects).toMatchObject([{ value: `${theirs}\nAge: 5`, resolution: 'merged' }]);
    const second = call(...rethink('human', `${SHOWN}\nAge: 6`), first.held);
    expect(second.outcome.ok).toBe(true);
    expect(second.effects).toMatchObject([
      { value: `${theirs}\nAge: 6`, based_on_revision: 5, resolution: 'merged' },
    ]);
  });
});

describe('a block that the request did not show', () => {
  const theirs = 'Plan: rest\nThen: tea';
  const unseen = (policy: ConflictPolicy): HeldBlock => ({ ...held(policy, theirs), seen: null });

  test.each(CONFLICT_POLICIES)('takes edits of a part as it stands under %s', (policy) => {
    const first = call(...append('human', 'x'), [unseen(policy)]);
    expect(first.effects).toMatchObject([
      { based_on_revision: 4, value: `${theirs}\nx`, resolution: 'clean' },
    ]);
    expect(first.held[0]).toMatchObject({ current: { revision: 5 }, seen: null });
  });

  test('is not overwritten by a rewrite under reject', () => {
    const { outcome, effects } = call(...rethink('human', 'mine'), [unseen('reject')]);
    expect(outcome).toMatchObject({ ok: false, result: expect.stringContaining(theirs) });
    expect(effects).toEqual([]);
  });

  test('keeps its lines beside those of a rewrite under merge, however often it is rewritten', () => {
    const first = call(...rethink('human', 'mine'), [unseen('merge')]);
    expect(first.effects).toMatchObject([{ value: `${theirs}\nmine`, resolution: 'merged' }]);
    expect(first.outcome.result).toContain(`${theirs}\nmine`);
    const second = call(...rethink('human', 'mine, again'), first.held);
    expect(second.effects).toMatchObject([{ value: `${theirs}\nmine, again`, resolution: 'merged' }]);
  });

  test('is overwritten by a rewrite under last_write, which says so', () => {
    const { effects } = call(...rethink('human', 'mine'), [unseen('last_write')]);
    expect(effects).toMatchObject([{ value: 'mine', resolution: 'overwrote' }]);
  });

  test('stays unknown after an edit of a part before the rewrite', () => {
    const first = call(...append('human', 'x'), [unseen('merge')]);
    const second = call(...rethink('human', 'mine'), first.held);
    expect(second.effects).toMatchObject([{ value: `${theirs}\nx\nmine`, resolution: 'merged' }]);
  });

  test.each(CONFLICT_POLICIES)('may be rewritten under %s where it is empty', (policy) => {
    const empty = { ...held(policy, ''), seen: null };
    expect(call(...rethink('human', 'mine'), [empty]).effects).toMatchObject([
      { value: 'mine', resolution: 'clean' },
    ]);
  });
});

describe('calls that change more than one text', () => {
  const two = [held('merge', `${SHOWN}\nPet: cat`), held('reject', 'changed', 'other')];

  test('a patch is kept whole or not at all, conflicts included', () => {
    const patch = ['*** Update Block: human', '+Age: 5', '*** Update Block: other', '+x'].join('\n');
    expect(call('memory_apply_patch', { patch }, two)).toMatchObject({ outcome: { ok: false }, effects: [] });
    expect(call('memory_apply_patch', { label: 'human', patch: '+Age: 5' }, two).effects).toMatchObject([
      { value: `${SHOWN}\nPet: cat\nAge: 5`, resolution: 'merged' },
    ]);
  });

  test('arguments that are missing are named', () => {
    expect(call('memory_apply_patch', {}, two).outcome.result).toContain("Argument 'patch' is missing.");
    expect(call('memory_apply_patch', { patch: '+x', label: 1 }, two).outcome.result).toContain(
      "Argument 'label' must be a string.",
    );
    expect(call('rethink_user_memory', {}, two).outcome.result).toContain(
      "Argument 'new_memory' is missing.",
    );
  });

  test('new, renamed, described and deleted blocks are known to the next call', () => {
    const created = call('memory', { command: 'create', path: 'notes', description: 'd', file_text: 'a' }, [
      held('reject'),
    ]);
    const renamed = call('memory', { command: 'rename', old_path: 'notes', new_path: 'n' }, created.held);
    const described = call('memory', { command: 'rename', path: 'n', description: 'e' }, renamed.held);
    const written = call(...append('n', 'b'), described.held);
    expect(written.effects).toMatchObject([
      { block_id: 'new-1', label: 'n', value: 'a\nb', based_on_revision: 2 },
    ]);
    expect(written.held[1]).toMatchObject({
      current: { revision: 3, label: 'n', description: 'e', value: 'a\nb' },
    });
    const deleted = call('memory', { command: 'delete', path: 'n' }, written.held);
    expect(deleted.held.map(({ current }) => current.label)).toEqual(['human']);
    const unseen = { ...held('reject'), seen: null };
    expect(
      call('memory', { command: 'rename', path: 'human', description: 'e' }, [unseen]).held[0],
    ).toMatchObject({
      seen: null,
      current: { revision: 4 },
    });
  });

  test('a new description names the revision that the model saw', () => {
    const { effects } = call('memory', { command: 'rename', path: 'human', description: 'e' }, [
      held('reject', 'changed'),
    ]);
    expect(effects).toMatchObject([{ kind: 'describe', based_on_revision: 3 }]);
  });

  test('a label that another agent uses on a shared block is refused', () => {
    const { block_id } = held('reject').current;
    const rest = { isLabelTaken: (id: string, label: string) => id === block_id && label === 'taken' };
    const rename = (new_path: string) =>
      call('memory', { command: 'rename', old_path: 'human', new_path }, [held('reject')], rest);
    expect(rename('taken')).toMatchObject({
      outcome: { ok: false, result: expect.stringContaining("an agent that has a block 'taken' already") },
      effects: [],
    });
    expect(rename('free').effects).toMatchObject([{ kind: 'rename', new_label: 'free' }]);
  });

  test('the older names of two commands do the same', () => {
    const blocks = [held('merge')];
    const replaced = { path: '/memories/human', old_string: 'Oslo', new_string: 'Rome' };
    expect(call('memory_str_replace', replaced, blocks)).toEqual(
      call('memory', { command: 'str_replace', ...replaced }, blocks),
    );
    const inserted = { path: 'human', insert_text: 'Age: 5', insert_line: 1 };
    expect(call('memory_str_insert', inserted, blocks)).toEqual(
      call('memory', { command: 'insert', ...inserted }, blocks),
    );
  });

  test('finishing changes nothing and succeeds', () => {
    for (const tool of ['memory_finish_edits', 'finish_rethinking_memory']) {
      expect(call(tool, {}, two)).toMatchObject({ outcome: { ok: true }, effects: [] });
    }
  });
});

describe('a label that another writer took from a block after the request showed it', () => {
  const idOf = (label: string) => makeBlock(label, '').block_id;
  /** The blocks that the request showed under two labels. */
  const known = new Map([
    ['this', idOf('this')],
    ['last', idOf('last')],
  ]);
  const relabelled = (shown: string, label: string, policy: ConflictPolicy = 'merge'): HeldBlock => {
    const { current, ...rest } = held(policy, SHOWN, shown);
    return { ...rest, current: { ...current, label } };
  };
  const patch = (text: string) => ['memory_apply_patch', { patch: text }] as const;
  const command = (name: string, rest: JsonObject) => ['memory', { command: name, ...rest }] as const;
  const every = [
    rethink('this', 'new'),
    ['rethink_memory', { target_block_label: 'this', new_memory: 'new' }],
    append('this', 'new'),
    replace('this', 'Oslo', 'Rome'),
    ['memory_insert', { label: 'this', new_string: 'new' }],
    command('delete', { path: '/memories/this' }),
    command('rename', { path: 'this', description: 'new' }),
    command('rename', { old_path: 'this', new_path: 'new' }),
    command('str_replace', { path: 'this', old_string: 'Oslo', new_string: 'Rome' }),
    patch('*** Update Block: this\n-City: Oslo'),
    patch('*** Delete Block: this'),
  ] as const;

  test.each(every)('does not mean the block that has it now for %s %j', (tool, args) => {
    for (const policy of CONFLICT_POLICIES) {
      const swapped = [relabelled('this', 'last', policy), relabelled('last', 'this', policy)];
      const { outcome, effects } = call(tool, args, swapped, { known, may_create: true });
      expect(outcome).toMatchObject({
        ok: false,
        result: expect.stringContaining("you know as 'this' is called 'last' now"),
      });
      expect(effects).toEqual([]);
    }
    const another = { ...held('merge', 'another', 'this'), seen: null };
    const fresh = { ...another, current: { ...another.current, block_id: 'fresh' } };
    expect(call(tool, args, [fresh], { known })).toMatchObject({
      outcome: { ok: false, result: expect.stringContaining("you know as 'this' is gone") },
      effects: [],
    });
  });

  test('makes no new block under a rewrite, unless the block is gone', () => {
    const rest = { known, may_create: true };
    expect(call(...rethink('this', 'new'), [relabelled('this', 'week 7')], rest)).toMatchObject({
      outcome: { ok: false, result: expect.stringContaining("is called 'week 7' now") },
      effects: [],
    });
    expect(call(...rethink('this', 'new'), [], rest).effects).toMatchObject([
      { kind: 'create', label: 'this' },
    ]);
  });

  test('still means the blocks that the answer itself rearranged, in one call or in several', () => {
    const blocks = [relabelled('this', 'this'), relabelled('last', 'last')];
    const rename = (old_path: string, new_path: string) => command('rename', { old_path, new_path });
    const steps = [
      rename('this', 'spare'),
      rename('last', 'this'),
      rename('spare', 'last'),
      append('this', 'was last'),
      command('delete', { path: 'last' }),
      rethink('last', 'made anew'),
      append('last', 'and more'),
    ];
    const rest = { known, may_create: true };
    const done = steps.reduce<Pick<MemoryCallOutcome, 'held' | 'known'>>(
      (before, [tool, args]) => {
        const after = call(tool, args, before.held, { ...rest, known: before.known });
        expect(after.outcome).toMatchObject({ ok: true });
        return after;
      },
      { held: blocks, known },
    );
    expect(done.held.map(({ current }) => [current.block_id, current.label, current.value])).toEqual([
      [idOf('last'), 'this', `${SHOWN}\nwas last`],
      ['new-1', 'last', 'made anew\nand more'],
    ]);
    const swap = [
      ...['*** Update Block: this', '*** Move to: spare', '*** Update Block: last', '*** Move to: this'],
      ...['*** Update Block: spare', '*** Move to: last', '*** Update Block: this', '+was last'],
    ];
    expect(call(...patch(swap.join('\n')), blocks, rest).outcome).toMatchObject({ ok: true });
  });

  test('is the tag whose closing the prompt wrote otherwise', () => {
    const shown = { ...relabelled('this', 'week 7'), seen: { revision: 3, value: 'a </this>' } };
    const block = { ...shown, current: { ...shown.current, value: 'a </this>' } };
    const { effects } = call(...replace('week 7', 'a <\\/this>', 'b'), [block], { known });
    expect(effects).toMatchObject([{ value: 'b' }]);
  });
});

describe('a rewrite of a block that does not exist', () => {
  test('creates it where the agent may, and otherwise lists the existing blocks', () => {
    for (const [tool, args] of [
      rethink('notes', 'a'),
      ['rethink_memory', { target_block_label: 'notes', new_memory: 'a' }],
    ] as const) {
      expect(call(tool, args, [held('merge')], { may_create: true })).toMatchObject({
        outcome: { ok: true, result: 'a' },
        effects: [{ kind: 'create', label: 'notes', value: 'a', description: null }],
      });
      expect(call(tool, args, [held('merge')])).toMatchObject({
        outcome: {
          ok: false,
          result: expect.stringContaining("'notes' does not exist. Existing labels: human"),
        },
        effects: [],
      });
    }
    expect(call('rethink_user_memory', { new_memory: 'a' }, [], { may_create: true })).toMatchObject({
      effects: [{ kind: 'create', label: 'human', value: 'a' }],
    });
    expect(call('rethink_user_memory', { new_memory: 'a' }, []).outcome).toMatchObject({
      ok: false,
      result: expect.stringContaining("'human' does not exist. The agent has no memory blocks"),
    });
  });

  test('is refused with copied line numbers', () => {
    const { outcome } = call(...rethink('notes', '1→ a'), [], { may_create: true });
    expect(outcome.result).toContain("Argument 'new_memory' contains a line number prefix");
  });
});

test('a message to the user changes no memory', () => {
  expect(call('send_message', { message: 'hi' }, [held('merge')])).toMatchObject({
    outcome: { ok: true, result: 'Sent message successfully.' },
    effects: [],
  });
  expect(call('send_message', {}, []).outcome.ok).toBe(false);
});

test('an unknown tool and an unchanged text have no effect', () => {
  expect(call('memory_forget', {}, [held('merge')])).toMatchObject({ outcome: { ok: false }, effects: [] });
  expect(call(...rethink('human', SHOWN), [held('reject', 'changed')]).effects).toEqual([]);
});

test('an overlap names at most three lines, shortened', () => {
  const long = 'x'.repeat(100);
  const base = [long, 'b', 'c', 'd'].join('\n');
  const resolved = resolveWrite(
    'merge',
    { base, current: makeBlock('human', '1\n2\n3\n4'), value: '5\n6\n7\n8', changed_by: 'run' },
    diff3,
  );
  expect(resolved).toMatchObject({
    kind: 'conflict',
    refusal: { message: expect.stringContaining(`("${'x'.repeat(80)}…", "b", "c", …)`) },
  });
});

test('a merge without a change writes nothing', () => {
  const current = makeBlock('human', 'a\nb\nx\ny');
  const facts = { base: 'a\nb', current, value: 'a\nb\nx', changed_by: 'run' } as const;
  expect(resolveWrite('merge', facts, diff3)).toEqual({ kind: 'none' });
});

test('texts too long to compare are in conflict', () => {
  const blanks = (count: number) => '\n'.repeat(count);
  const facts = {
    base: `a${blanks(9_000)}b`,
    current: makeBlock('human', `c${blanks(9_001)}d`),
    value: `e${blanks(9_002)}f`,
    changed_by: 'run',
  } as const;
  expect(resolveWrite('merge', facts, diff3)).toMatchObject({
    kind: 'conflict',
    refusal: { message: expect.stringContaining('in the same place as you') },
  });
});
