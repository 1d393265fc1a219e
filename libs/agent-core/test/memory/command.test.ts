import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { BlockView } from '../../src/model/block.ts';
import { applyCommand } from '../../src/memory/command.ts';
import { draftEffects, openDraft } from '../../src/memory/draft.ts';
import { checkNewLabel, labelOfPath } from '../../src/memory/label.ts';
import { makeBlock } from './blocks.ts';

const human = makeBlock('human', 'Name: Ann\nCity: Oslo', { description: 'of the user' });
const nested = makeBlock('a/b', 'x');
const rules = makeBlock('rules', 'be kind', { read_only: true });

/** Another agent that has `human` has a block `taken`. */
const isLabelTaken = (blockId: string, label: string) => blockId === human.block_id && label === 'taken';

function run(args: JsonObject, blocks: readonly BlockView[] = [human, nested, rules]) {
  const draft = openDraft(blocks, {
    newBlockId: () => 'new-1',
    isLabelTaken,
    known: new Map(),
    writable_labels: null,
  });
  const done = applyCommand(draft, args);
  return typeof done === 'string'
    ? { ok: true, said: done, effects: draftEffects(draft) }
    : { ok: false, said: done.message, effects: [] };
}

describe('the memory tool', () => {
  test('create makes a block, empty without a text', () => {
    expect(run({ command: 'create', path: '/memories/notes', description: 'd', file_text: 'a\nb' })).toEqual({
      ok: true,
      said: "Successfully created memory block 'notes'. Until the end of this run your prompt shows your memory as it was before.",
      effects: [
        {
          kind: 'create',
          block_id: 'new-1',
          label: 'notes',
          description: 'd',
          value: 'a\nb',
          char_limit: 100_000,
        },
      ],
    });
    expect(run({ command: 'create', path: 'notes', description: '' }).effects).toMatchObject([
      { label: 'notes', value: '', description: '' },
    ]);
  });

  test('str_replace answers with the new value', () => {
    expect(
      run({ command: 'str_replace', path: '/memories/human', old_string: 'Oslo', new_string: 'Rome' }),
    ).toMatchObject({
      ok: true,
      said: 'Name: Ann\nCity: Rome',
      effects: [{ kind: 'write', label: 'human', value: 'Name: Ann\nCity: Rome' }],
    });
  });

  test('insert puts lines after a line, and at the end by default', () => {
    const insert = { command: 'insert', path: 'human', insert_text: 'Age: 5' };
    expect(run({ ...insert, insert_line: 1 }).said).toBe('Name: Ann\nAge: 5\nCity: Oslo');
    expect(run({ ...insert, insert_line: 0 }).said).toBe('Age: 5\nName: Ann\nCity: Oslo');
    expect(run(insert).said).toBe('Name: Ann\nCity: Oslo\nAge: 5');
    expect(run({ ...insert, insert_line: null }).said).toBe('Name: Ann\nCity: Oslo\nAge: 5');
    expect(run({ ...insert, insert_line: 9 })).toMatchObject({ ok: false, effects: [] });
    expect(run({ ...insert, insert_line: '1' }).said).toContain('must be an integer');
  });

  test('delete detaches the block from the agent', () => {
    expect(run({ command: 'delete', path: '/memories/human' })).toMatchObject({
      ok: true,
      said: "Successfully deleted memory block 'human'. Until the end of this run your prompt shows your memory as it was before.",
      effects: [{ kind: 'detach', block_id: human.block_id, label: 'human' }],
    });
  });

  test('rename changes the label or the description', () => {
    expect(
      run({ command: 'rename', old_path: '/memories/human', new_path: '/memories/person' }),
    ).toMatchObject({
      said: "Successfully renamed memory block 'human' to 'person'. Until the end of this run your prompt shows your memory as it was before.",
      effects: [{ kind: 'rename', label: 'human', new_label: 'person' }],
    });
    expect(run({ command: 'rename', path: '/memories/human', description: 'new' })).toMatchObject({
      ok: true,
      effects: [{ kind: 'describe', label: 'human', based_on_revision: 3, description: 'new' }],
    });
  });

  test('a command that changes nothing has no effect', () => {
    expect(run({ command: 'rename', old_path: 'human', new_path: 'human' }).effects).toEqual([]);
    expect(run({ command: 'rename', path: 'human', description: 'of the user' }).effects).toEqual([]);
  });

  test.each<[string, JsonObject, string]>([
    ['create', { description: 'd' }, 'Error: path is required for create command'],
    ['create', { path: 'x' }, 'Error: description is required for create command'],
    [
      'str_replace',
      { path: 'human', old_string: 'x' },
      'Error: new_string is required for str_replace command',
    ],
    ['insert', { path: 'human', insert_text: null }, 'Error: insert_text is required for insert command'],
    ['delete', {}, 'Error: path is required for delete command'],
    ['rename', { old_path: 'human' }, 'Error: new_path is required for rename command'],
    ['rename', { path: 'human' }, 'Error: old_path is required for rename command'],
    ['delete', { path: 7 }, "Argument 'path' must be a string."],
  ])('%s names the argument that is missing', (command, args, said) => {
    expect(run({ command, ...args })).toEqual({ ok: false, said, effects: [] });
  });

  test('an unknown command is answered with the known commands', () => {
    const known = 'Supported commands: create, str_replace, insert, delete, rename';
    expect(run({ command: 'view' }).said).toBe(`Error: Unknown command 'view'. ${known}`);
    expect(run({}).said).toBe(`Error: Unknown command 'null'. ${known}`);
    expect(run({ command: { a: 1 } }).said).toContain('{"a":1}');
  });

  test('a read-only block is neither changed, deleted, renamed nor described', () => {
    for (const args of [
      { command: 'str_replace', path: 'rules', old_string: 'kind', new_string: 'rude' },
      { command: 'insert', path: 'rules', insert_text: 'x' },
      { command: 'delete', path: 'rules' },
      { command: 'rename', old_path: 'rules', new_path: 'x' },
      { command: 'rename', path: 'rules', description: 'x' },
    ]) {
      expect(run(args)).toEqual({
        ok: false,
        said: "Memory block 'rules' is read-only and cannot be edited.",
        effects: [],
      });
    }
  });

  test('a label is never given twice', () => {
    for (const args of [
      { command: 'rename', old_path: 'human', new_path: 'a/b' },
      { command: 'create', path: 'a/b', description: '' },
    ]) {
      expect(run(args)).toMatchObject({
        ok: false,
        said: "Memory block 'a/b' already exists. Choose another label.",
      });
    }
  });

  test('a failure is an error, never a success that mentions an error', () => {
    expect(run({ command: 'delete', path: 'absent' }).ok).toBe(false);
    expect(run({ command: 'rename', old_path: 'absent', new_path: 'x' }).ok).toBe(false);
    expect(run({ command: 'rename', path: 'absent', description: 'x' }).ok).toBe(false);
    expect(run({ command: 'rename', old_path: 'human', new_path: '/memories/' }).said).toContain(
      'needs a label',
    );
  });

  test('line numbers copied from the prompt are refused by every command that takes text', () => {
    for (const args of [
      { command: 'create', path: 'x', description: '', file_text: '1→ a' },
      { command: 'str_replace', path: 'human', old_string: '1→ Name', new_string: 'x' },
      { command: 'insert', path: 'human', insert_text: '3→ x' },
    ]) {
      expect(run(args).said).toContain('contains a line number prefix');
    }
  });
});

describe('paths and labels', () => {
  test('a path is a label with or without /memories/ before it, the same for every command', () => {
    expect(['/memories/a/b', 'memories/a/b', '/a/b', 'a/b', ' /memories/a/b '].map(labelOfPath)).toEqual(
      Array.from({ length: 5 }, () => 'a/b'),
    );
    const path = '/memories/a/b';
    expect(run({ command: 'create', path: '/memories/c/d', description: '' }).effects).toMatchObject([
      { label: 'c/d' },
    ]);
    for (const args of [
      { command: 'str_replace', path, old_string: 'x', new_string: 'y' },
      { command: 'insert', path, insert_text: 'y' },
      { command: 'delete', path },
      { command: 'rename', old_path: path, new_path: '/memories/c/d' },
      { command: 'rename', path, description: 'y' },
    ]) {
      expect(run(args)).toMatchObject({ ok: true, effects: [{ block_id: nested.block_id }] });
    }
  });

  test('any label that a new block may have is found again by its path', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 20 }), (text) => {
        const label = labelOfPath(text);
        if (checkNewLabel(label) !== null) return;
        fc.pre(!label.startsWith('memories/') && !label.startsWith('/'));
        expect(labelOfPath(`/memories/${label}`)).toBe(label);
        expect(labelOfPath(label)).toBe(label);
      }),
    );
  });
});
