import { describe, expect, test } from 'vitest';
import type { BlockView } from '../../src/model/block.ts';
import {
  createBlock,
  describeBlock,
  draftEffects,
  draftValue,
  openDraft,
  renameBlock,
} from '../../src/memory/draft.ts';
import type { MemoryEffect } from '../../src/memory/effects.ts';
import { applyPatch } from '../../src/memory/patch.ts';
import { cpuMsOf } from '../../../../test/cpu-time.ts';
import { makeBlock } from './blocks.ts';

const human = makeBlock('human', 'Name: Ann\nCity: Oslo\n\nLikes: tea');
const empty = makeBlock('empty', '');
const rules = makeBlock('rules', 'be kind', { read_only: true });

/** Returns a patch's report and its effects. */
function patch(
  label: string,
  lines: readonly string[],
  blocks: readonly BlockView[] = [human, empty, rules],
): {
  readonly said: string;
  readonly ok: boolean;
  readonly effects: readonly MemoryEffect[];
  readonly value: string | null;
} {
  let ids = 0;
  const draft = openDraft(blocks, {
    newBlockId: () => `new-${++ids}`,
    isLabelTaken: () => false,
    known: new Map(),
    writable_labels: null,
  });
  const done = applyPatch(draft, label, lines.join('\n'));
  const effects = typeof done === 'string' ? draftEffects(draft) : [];
  const write = effects.find((effect) => effect.kind === 'write');
  return {
    said: typeof done === 'string' ? done : done.message,
    ok: typeof done === 'string',
    effects,
    value: write?.value ?? null,
  };
}

describe('a patch of a block whose lines end with \\r\\n', () => {
  const windows = 'Name: Ann\r\nCity: Oslo\r\n\r\nLikes: tea';
  test.each<[string, readonly string[], string, string]>([
    [
      'replaces lines',
      [' Name: Ann', '-City: Oslo', '+City: Rome', '+Age: 5'],
      windows,
      'Name: Ann\r\nCity: Rome\r\nAge: 5\r\n\r\nLikes: tea',
    ],
    ['removes the last line', ['-', '-Likes: tea'], windows, 'Name: Ann\r\nCity: Oslo'],
    [
      'replaces the last line by two',
      ['-Likes: tea', '+Likes: milk', '+Age: 5'],
      windows,
      'Name: Ann\r\nCity: Oslo\r\n\r\nLikes: milk\r\nAge: 5',
    ],
    ['appends', ['+Age: 5'], windows, `${windows}\r\nAge: 5`],
    [
      'finds lines in either form',
      ['-City: Oslo\r', '+City: Rome\r'],
      windows,
      windows.replace('Oslo', 'Rome'),
    ],
    ['keeps untouched lines', [' a', '-b', '+c', ' d'], 'a\nb\r\nd\r\ne', 'a\nc\r\nd\r\ne'],
    ['adds lines with the ends of their neighbours', [' b', '+c'], 'a\r\nb\nd', 'a\r\nb\nc\nd'],
    ['keeps a lone carriage return at the end', ['-a', '+c'], 'a\r\nb\r', 'c\r\nb\r'],
  ])('%s', (_name, lines, before, expected) => {
    expect(patch('human', lines, [makeBlock('human', before)])).toMatchObject({ ok: true, value: expected });
  });
});

describe('a patch of one block', () => {
  test.each<[string, readonly string[], string]>([
    ['replaces lines', [' Name: Ann', '-City: Oslo', '+City: Rome'], 'Name: Ann\nCity: Rome\n\nLikes: tea'],
    ['removes lines', ['-City: Oslo'], 'Name: Ann\n\nLikes: tea'],
    ['inserts beside context', [' City: Oslo', '+Age: 5'], 'Name: Ann\nCity: Oslo\nAge: 5\n\nLikes: tea'],
    [
      'appends a hunk that only adds',
      ['+Age: 5', '+Pet: cat'],
      'Name: Ann\nCity: Oslo\n\nLikes: tea\nAge: 5\nPet: cat',
    ],
    [
      'applies hunks in order, each on the result of the hunk before',
      ['@@', '-Name: Ann', '+Name: Bea', '@@ -4 +4 @@ somewhere', ' Name: Bea', '+Age: 5'],
      'Name: Bea\nAge: 5\nCity: Oslo\n\nLikes: tea',
    ],
    [
      'takes an empty line as an empty line that stays',
      ['-City: Oslo', '', '-Likes: tea', '+Likes: milk'],
      'Name: Ann\n\nLikes: milk',
    ],
    [
      'appends a hunk that only adds, whatever empty lines follow it',
      ['+Age: 5', '', ''],
      'Name: Ann\nCity: Oslo\n\nLikes: tea\nAge: 5',
    ],
    [
      'takes empty lines at the end of a hunk as spacing where they do not fit',
      ['@@', '-Name: Ann', '', '@@', '-Likes: tea', '', ''],
      'City: Oslo\n',
    ],
    [
      'passes over the headings of other formats',
      [
        '*** Begin Patch',
        '*** Update File: human.md',
        '',
        '--- a/human',
        '+++ b/human',
        '@@ -1,2 +1,2 @@',
        '-City: Oslo',
        '+City: Rome',
        '\\ No newline at end of file',
        '*** End Patch',
        '',
      ],
      'Name: Ann\nCity: Rome\n\nLikes: tea',
    ],
    [
      'reads lines that end as Windows ends them',
      ['-City: Oslo\r', '+City: Rome\r'],
      'Name: Ann\nCity: Rome\n\nLikes: tea',
    ],
  ])('%s', (_what, lines, value) => {
    const { ok, value: written, said } = patch('human', lines);
    expect({ ok, written, said }).toEqual({ ok: true, written: value, said: value });
  });

  test('that changes nothing has no effect', () => {
    expect(patch('human', [' Name: Ann'])).toMatchObject({ ok: true, said: human.value, effects: [] });
  });

  test('fills an empty block without an empty first line', () => {
    expect(patch('empty', ['+a', '+b']).value).toBe('a\nb');
  });

  test('can remove a line that begins with -- and add a line that begins with ++', () => {
    const block = makeBlock('human', '-- old\nrest');
    expect(patch('human', ['@@', '--- old', '+++ new'], [block]).value).toBe('++ new\nrest');
    expect(patch('human', ['--- old', '+x'], [block]).value).toBe('x\nrest');
  });

  test('refuses a line of no known kind instead of skipping it', () => {
    expect(patch('human', ['-City: Oslo', 'City: Rome'])).toMatchObject({
      ok: false,
      said: "A line of the patch begins with neither ' ', '-', '+' nor '@@': City: Rome",
    });
    expect(patch('human', ['-City: Oslo', '*** Odd'])).toMatchObject({ ok: false });
    expect(patch('human', ['x'.repeat(200)]).said).toContain(`${'x'.repeat(120)}…`);
  });

  test('refuses lines that do not stand together, and shows the first of them', () => {
    expect(patch('human', [' Name: Ann', '-a', '-b', '-c', '-d']).said).toBe(
      'These lines of a hunk do not stand together, so nothing was changed:\nName: Ann\na\nb\nc\n' +
        " in memory block 'human'.",
    );
    expect(patch('human', [' Name: Ann', '', '-Nowhere', '', '']).ok).toBe(false);
    expect(patch('human', ['@@', '', '+x'], [makeBlock('human', 'a')]).ok).toBe(false);
  });

  test('refuses lines that stand in more than one place', () => {
    const twice = makeBlock('human', 'x\ny\nx');
    expect(patch('human', ['-x'], [twice]).said).toBe(
      "The lines of a hunk stand in more than one place (lines 1, 3…); nothing was changed. Add surrounding lines to make them unique in memory block 'human'.",
    );
    expect(patch('human', ['-x', '-y'], [twice]).value).toBe('x');
  });

  test('refuses a patch without a change', () => {
    for (const lines of [[], [''], ['@@'], ['*** Begin Patch', '*** End Patch']]) {
      expect(patch('human', lines).said).toBe("The patch for memory block 'human' holds no change.");
    }
  });

  test('refuses a block that is missing, read-only or would be too long', () => {
    expect(patch('absent', ['+x']).said).toBe(
      "Memory block 'absent' does not exist. Existing labels: human, empty, rules.",
    );
    expect(patch('rules', ['+x']).said).toBe("Memory block 'rules' is read-only and cannot be edited.");
    expect(patch('human', ['+67890'], [makeBlock('human', '12345', { char_limit: 10 })]).said).toContain(
      'would hold 11 characters, 1 more than its limit of 10',
    );
  });

  test('refuses line numbers that were copied from the prompt', () => {
    expect(patch('human', ['-2→ City: Oslo']).said).toContain('contains a line number prefix');
    expect(patch('human', ['+1→ first line']).ok).toBe(false);
  });

  test('adds after the last line of a block that ends it, and ends the added lines', () => {
    expect(patch('a', ['+x', '+y'], [makeBlock('a', 'one\ntwo\n')]).value).toBe('one\ntwo\nx\ny\n');
    expect(patch('a', ['+x'], [makeBlock('a', 'one\r\n')]).value).toBe('one\r\nx\r\n');
    expect(patch('a', ['+x'], [makeBlock('a', '\n')]).value).toBe('\nx\n');
  });

  test('treats a lone pair of dashes and pluses as a change', () => {
    const front = makeBlock('front', '---\ntitle: a\n---');
    expect(patch('front', ['----', '++++', ' title: a'], [front]).value).toBe('+++\ntitle: a\n---');
    const both = ['----', '++++', ' title: a', '----', '++++'];
    expect(patch('front', both, [front]).value).toBe('+++\ntitle: a\n+++');
  });

  test('treats dashes and pluses as a heading with or without names', () => {
    for (const heading of [
      ['---', '+++'],
      ['--- a/human', '+++ b/human'],
      ['---\ta', '+++\tb'],
    ])
      expect(patch('human', [...heading, '-City: Oslo']).value).toBe('Name: Ann\n\nLikes: tea');
  });

  test('of thousands of lines in a block of more lines alike is refused at once', () => {
    const blanks = makeBlock('blanks', `\n`.repeat(30_000), { char_limit: 1_000_000 });
    const hunk = [...Array.from({ length: 9_000 }, () => ' '), ' not there', '+x'];
    const refuse = () =>
      expect(patch('blanks', hunk, [blanks])).toMatchObject({
        ok: false,
        said: expect.stringContaining('Too many lines are alike'),
      });
    expect(cpuMsOf(refuse)).toBeLessThan(1000);
  });

  test('of thousands of hunks that only add costs only the added lines', () => {
    const long = makeBlock('long', 'x\n'.repeat(20_000), { char_limit: 1_000_000 });
    const hunks = Array.from({ length: 16_000 }, () => ['@@', '+a']).flat();
    const add = () => expect(patch('long', hunks, [long]).value).toBe(`${long.value}${'a\n'.repeat(16_000)}`);
    expect(cpuMsOf(add)).toBeLessThan(1000);
  });

  test.each([
    ['of many lines', 'x\n'.repeat(20_000)],
    ['of one line', `${'x'.repeat(999_000)}\n`],
  ])('that takes a long block %s up thousands of times is refused soon', (_of, text) => {
    const long = makeBlock('long', text, { char_limit: 1_000_000 });
    const sections = Array.from({ length: 2_000 }, () => ['*** Update Block: long', '+a']).flat();
    const refuse = () =>
      expect(patch('long', sections, [long])).toMatchObject({
        ok: false,
        said: expect.stringContaining('under one heading'),
      });
    expect(cpuMsOf(refuse)).toBeLessThan(12_000);
  });

  test('needs a heading to move a block', () => {
    expect(patch('human', ['*** Move to: person', '+x']).said).toContain('needs a');
  });
});

test('a draft keeps new labels and descriptions for a new block itself', () => {
  const draft = openDraft([human], {
    newBlockId: () => 'new-1',
    isLabelTaken: () => false,
    known: new Map(),
    writable_labels: null,
  });
  expect(createBlock(draft, 'notes', null, 'a')).toBeNull();
  expect(describeBlock(draft, 'notes', 'd')).toBeNull();
  expect(renameBlock(draft, 'notes', 'n')).toBeNull();
  expect([draftValue(draft, 'n'), draftValue(draft, 'notes')]).toEqual(['a', '']);
  expect(draftEffects(draft)).toMatchObject([{ kind: 'create', label: 'n', description: 'd' }]);
});

describe('a patch of several blocks', () => {
  test('adds, updates, deletes and renames, and says so', () => {
    const { said, effects } = patch('', [
      '*** Begin Patch',
      '',
      '*** Add Block: notes',
      'Description: what to remember',
      '+one',
      '+two',
      '',
      '*** Update Block: human',
      '*** Move to: person',
      '-City: Oslo',
      '*** Delete Block: empty',
      '',
      '*** End Patch',
    ]);
    expect(said).toBe(
      "Patch applied: added block 'notes'; updated block 'human'; renamed block 'human' to 'person'; deleted block 'empty'.",
    );
    expect(effects).toEqual([
      { kind: 'rename', block_id: human.block_id, label: 'human', new_label: 'person' },
      { kind: 'detach', block_id: empty.block_id, label: 'empty' },
      {
        kind: 'write',
        block_id: human.block_id,
        label: 'person',
        based_on_revision: 3,
        value: 'Name: Ann\n\nLikes: tea',
        resolution: 'clean',
      },
      {
        kind: 'create',
        block_id: 'new-1',
        label: 'notes',
        description: 'what to remember',
        value: 'one\ntwo',
        char_limit: 100_000,
      },
    ]);
  });

  test('an update with only a new name renames', () => {
    const { said, effects } = patch('', ['*** Update Block: human', '*** Move to: person']);
    expect(said).toBe("Patch applied: renamed block 'human' to 'person'.");
    expect(effects).toHaveLength(1);
  });

  test('a block may be added and moved at once', () => {
    expect(patch('', ['*** Add Block: a', '+x', '*** Move to: b']).effects).toEqual([
      { kind: 'create', block_id: 'new-1', label: 'b', description: null, value: 'x', char_limit: 100_000 },
    ]);
  });

  test('several operations on a block become a single write, based on the earlier value', () => {
    const { effects } = patch('', [
      '*** Update Block: human',
      '-City: Oslo',
      '*** Update Block: human',
      ' Name: Ann',
      '+Age: 5',
    ]);
    expect(effects).toHaveLength(1);
    expect(effects[0]).toMatchObject({ value: 'Name: Ann\nAge: 5\n\nLikes: tea', based_on_revision: 3 });
  });

  test('a single update answers with the new value', () => {
    expect(patch('', ['*** Update Block: empty', '+x']).said).toBe('x');
  });

  test('a label may pass from one block to another', () => {
    const { effects } = patch('', [
      '*** Delete Block: empty',
      '*** Update Block: human',
      '*** Move to: empty',
      '*** Add Block: human',
      '+new',
    ]);
    expect(effects.map((effect) => effect.kind)).toEqual(['detach', 'rename', 'create']);
  });

  test('a block that is added and deleted leaves nothing', () => {
    expect(patch('', ['*** Add Block: a', '+x', '*** Delete Block: a']).effects).toEqual([]);
  });

  test.each<[string, readonly string[], RegExp]>([
    ['a label that exists', ['*** Add Block: human', '+x'], /'human' already exists/],
    ['a new label that exists', ['*** Update Block: human', '*** Move to: empty'], /'empty' already exists/],
    ['a block that does not exist', ['*** Update Block: absent', '+x'], /'absent' does not exist/],
    ['deleting a missing block', ['*** Delete Block: absent'], /'absent' does not exist/],
    ['deleting a read-only block', ['*** Delete Block: rules'], /read-only/],
    ['renaming a read-only block', ['*** Update Block: rules', '*** Move to: r'], /read-only/],
    ['a heading without a label', ['*** Add Block: '], /names no block/],
    ['a move without a label', ['*** Update Block: human', '*** Move to:  '], /names no block/],
    ['a move before any heading', ['*** Move to: x', '*** Delete Block: empty'], /needs an Add or Update/],
    ['a move of a deleted block', ['*** Delete Block: empty', '*** Move to: x'], /needs an Add or Update/],
    [
      'two moves of one section',
      ['*** Update Block: human', '*** Move to: x', '*** Move to: y'],
      /needs an Add or Update/,
    ],
    ['an update without a change', ['*** Update Block: human'], /holds no change/],
    ['lines before any heading', ['+x', '*** Delete Block: empty'], /belongs to no block/],
    ['an unknown heading', ['*** Delete Block: empty', '*** Copy Block: x'], /belongs to no block/],
    ['lines for a deletion', ['*** Delete Block: empty', '+x'], /takes no lines/],
    ['a line of a new block without +', ['*** Add Block: a', 'Description: d', 'x'], /must begin with '\+'/],
    ['an unreadable hunk', ['*** Update Block: human', 'x'], /begins with neither/],
    ['a label of two lines', ['*** Update Block: human', `*** Move to: ${'x'.repeat(101)}`], /one line/],
    [
      'a new block that is too long',
      ['*** Add Block: a', `+${'x'.repeat(100_001)}`],
      /1 more than its limit/,
    ],
  ])('refuses %s, and keeps nothing of the patch', (_what, lines, message) => {
    const { ok, said, effects } = patch('', ['*** Update Block: empty', '+kept?', ...lines]);
    const alone = patch('', lines);
    expect(alone.said).toMatch(message);
    expect({ ok: alone.ok, effects: alone.effects }).toEqual({ ok: false, effects: [] });
    if (lines[0]?.startsWith('*** ') === true && lines[0] !== '*** Move to: x') {
      expect({ ok, effects, said }).toMatchObject({ ok: false, effects: [] });
    }
  });

  test('a patch whose last operation fails leaves the earlier ones undone', () => {
    expect(patch('', ['*** Update Block: human', '+x', '*** Update Block: empty', '-y'])).toMatchObject({
      ok: false,
      effects: [],
    });
  });

  test('an agent has at most 500 blocks', () => {
    const many = Array.from({ length: 500 }, (_, index) => makeBlock(`b${index}`, ''));
    expect(patch('', ['*** Add Block: a', '+x'], many).said).toContain(
      '500 memory blocks, which is the most',
    );
  });
});
