import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { carryOutMemoryCall, type HeldBlock, type MemoryCallOptions } from '../../src/memory/carry-out.ts';
import { makeBlock } from './blocks.ts';
import { diff3 } from './diff3.ts';

const hold = (label: string, rest: { readonly read_only?: boolean } = {}): HeldBlock => {
  const current = makeBlock(label, `text of ${label}`, rest);
  const { revision, value } = current;
  return { current, seen: { revision, value }, policy: 'merge', changed_by: 'person' };
};
const HELD = [hold('summary'), hold('persona'), hold('rules', { read_only: true }), hold('human')];

function call(tool: string, args: JsonObject, writable_labels: readonly string[] | null) {
  const options: MemoryCallOptions = {
    newBlockId: () => 'new-1',
    may_create: true,
    isLabelTaken: () => false,
    known: new Map(HELD.map(({ current }) => [current.label, current.block_id])),
    writable_labels,
    diff3,
  };
  return carryOutMemoryCall(tool, args, HELD, options);
}

const PATCH = (...lines: readonly string[]) => ({
  patch: ['*** Begin Patch', ...lines, '*** End Patch'].join('\n'),
});
const ONLY = 'It may write only: summary, plans.';

describe('a run that may write the blocks summary and plans', () => {
  test.each<[string, string, JsonObject]>([
    ['appends', 'core_memory_append', { label: 'persona', content: 'x' }],
    [
      'replaces everywhere',
      'core_memory_replace',
      { label: 'persona', old_content: 'text', new_content: 'x' },
    ],
    ['inserts', 'memory_insert', { label: 'persona', new_string: 'x' }],
    ['replaces once', 'memory_replace', { label: 'persona', old_string: 'text', new_string: 'x' }],
    ['rewrites', 'memory_rethink', { label: 'persona', new_memory: 'x' }],
    ['rewrites by the older name', 'rethink_memory', { target_block_label: 'persona', new_memory: 'x' }],
    [
      'replaces by path',
      'memory_str_replace',
      { path: '/memories/persona', old_string: 'text', new_string: 'x' },
    ],
    ['patches', 'memory_apply_patch', { label: 'persona', patch: '-text of persona\n+x' }],
    [
      'patches by heading',
      'memory_apply_patch',
      PATCH('*** Update Block: persona', '-text of persona', '+x'),
    ],
    ['deletes', 'memory', { command: 'delete', path: 'persona' }],
    ['deletes by patch', 'memory_apply_patch', PATCH('*** Delete Block: persona')],
    ['describes', 'memory', { command: 'rename', path: 'persona', description: 'x' }],
    ['renames away', 'memory', { command: 'rename', old_path: 'persona', new_path: 'plans' }],
    ['rewrites the user', 'rethink_user_memory', { new_memory: 'x' }],
  ])('%s no other block, and is told so', (_what, tool, args) => {
    const { outcome, effects, held } = call(tool, args, ['summary', 'plans']);
    expect(outcome).toMatchObject({ ok: false });
    expect(outcome.result).toContain('is read-only in this run and cannot be edited.');
    expect(outcome.result).toContain(ONLY);
    expect(effects).toEqual([]);
    expect(held).toBe(HELD);
    expect(call(tool, args, null).outcome.ok).toBe(true);
  });

  test.each<[string, string, JsonObject]>([
    ['creates', 'memory', { command: 'create', path: 'diary', description: 'd' }],
    ['creates by rewriting', 'memory_rethink', { label: 'diary', new_memory: 'x' }],
    ['creates by patch', 'memory_apply_patch', PATCH('*** Add Block: diary', '+x')],
    ['renames its own to', 'memory', { command: 'rename', old_path: 'summary', new_path: 'diary' }],
  ])('%s no block of another label', (_what, tool, args) => {
    const { outcome, effects } = call(tool, args, ['summary', 'plans']);
    expect(outcome.result).toContain("No memory block may be named 'diary' in this run.");
    expect(outcome.result).toContain(ONLY);
    expect([outcome.ok, effects]).toEqual([false, []]);
    expect(call(tool, args, null).outcome.ok).toBe(true);
  });

  test.each<[string, string, JsonObject]>([
    ['writes', 'memory_rethink', { label: 'summary', new_memory: 'x' }],
    ['creates', 'memory', { command: 'create', path: 'plans', description: 'd' }],
    ['renames', 'memory', { command: 'rename', old_path: 'summary', new_path: 'plans' }],
  ])('%s its own', (_what, tool, args) => {
    expect(call(tool, args, ['summary', 'plans'])).toMatchObject({ outcome: { ok: true } });
  });

  test('writes no block that is read-only for its agent, even if it is named', () => {
    const { outcome } = call('memory_rethink', { label: 'rules', new_memory: 'x' }, ['rules']);
    expect(outcome.result).toContain("Memory block 'rules' is read-only and cannot be edited.");
  });

  test('without a label may write nothing', () => {
    const { outcome } = call('memory_rethink', { label: 'summary', new_memory: 'x' }, []);
    expect(outcome.result).toContain('It may write no blocks.');
  });
});

test('no sequence of calls changes a block outside of the labels', () => {
  const label = fc.constantFrom('summary', 'persona', 'human', 'plans', 'diary');
  const args = fc.oneof(
    fc.record({ tool: fc.constant('memory_rethink'), label, new_memory: fc.string() }),
    fc.record({ tool: fc.constant('core_memory_append'), label, content: fc.string() }),
    fc.record({ tool: fc.constant('memory'), command: fc.constantFrom('create', 'delete'), path: label }),
    fc.record({
      tool: fc.constant('memory'),
      command: fc.constant('rename'),
      old_path: label,
      new_path: label,
    }),
    fc.record({
      tool: fc.constant('memory'),
      command: fc.constant('rename'),
      path: label,
      description: label,
    }),
    fc.record({
      tool: fc.constant('memory_apply_patch'),
      patch: label.map((to) => PATCH(`*** Update Block: summary`, `*** Move to: ${to}`).patch),
    }),
  );
  const writable = fc.uniqueArray(label);
  fc.assert(
    fc.property(fc.array(args, { maxLength: 8 }), writable, (calls, writable_labels) => {
      let made = 0;
      let held: readonly HeldBlock[] = HELD;
      let known: MemoryCallOptions['known'] = new Map(
        HELD.map(({ current }) => [current.label, current.block_id]),
      );
      for (const { tool, ...rest } of calls) {
        const options = {
          newBlockId: () => `new-${++made}`,
          may_create: true,
          isLabelTaken: () => false,
          known,
        };
        const done = carryOutMemoryCall(tool, rest, held, { ...options, writable_labels, diff3 });
        ({ held, known } = done);
      }
      const outside = (blocks: readonly HeldBlock[]) =>
        blocks
          .map(({ current }) => current)
          .filter((block) => !(writable_labels as readonly string[]).includes(block.label));
      expect(outside(held)).toEqual(outside(HELD));
    }),
  );
});
