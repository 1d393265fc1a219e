import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { carryOutMemoryCall, type HeldBlock } from '../../src/memory/carry-out.ts';
import { neutraliseClosingTags, restoreClosingTags, tagNames } from '../../src/memory/closing-tags.ts';
import { cpuMsOf } from '../../../../test/cpu-time.ts';
import { makeBlock } from './blocks.ts';
import { diff3 } from './diff3.ts';

const STORED = 'Send <value>3</value>\nin <b>bold</b> to </HUMAN >';
const DISPLAYED = 'Send <value>3<\\/value>\nin <b>bold</b> to <\\/HUMAN >';

function hold(label: string, value: string): HeldBlock {
  const current = makeBlock(label, value);
  return { current, seen: { revision: current.revision, value }, policy: 'merge', changed_by: 'person' };
}

/** Returns the text of the block `human` after a call, or the call's error. */
function after(tool: string, args: JsonObject, stored = STORED, beside = 'x'): string {
  const held = [hold('human', stored), hold('persona', beside)];
  const { outcome, effects } = carryOutMemoryCall(tool, args, held, {
    newBlockId: () => 'new-1',
    may_create: false,
    isLabelTaken: () => false,
    writable_labels: null,
    known: new Map(held.map(({ current }) => [current.label, current.block_id])),
    diff3,
  });
  const [effect] = effects;
  return effect !== undefined && 'value' in effect ? effect.value : outcome.result;
}

describe('text that a model copies from the prompt, where closing tags are shown otherwise', () => {
  test.each<[string, string, JsonObject, string]>([
    [
      'an old text is found',
      'memory_replace',
      { old_string: '3<\\/value>', new_string: '4' },
      STORED.replace('3</value>', '4'),
    ],
    [
      'a new text is stored as it was',
      'memory_replace',
      { old_string: '3<\\/value>', new_string: '4<\\/value>' },
      STORED.replace('3', '4'),
    ],
    [
      'and so is the old text in its stored form',
      'memory_replace',
      { old_string: '3</value>', new_string: '4</value>' },
      STORED.replace('3', '4'),
    ],
    [
      'everywhere',
      'core_memory_replace',
      { old_content: '<\\/value>', new_content: '<\\/HUMAN >' },
      STORED.replace('</value>', '</HUMAN >'),
    ],
    ['a whole text', 'memory_rethink', { new_memory: `${DISPLAYED}!` }, `${STORED}!`],
    ['further lines', 'memory_insert', { new_string: '<value>4<\\/value>' }, `${STORED}\n<value>4</value>`],
    [
      'an edit by command',
      'memory',
      { command: 'str_replace', path: 'human', old_string: '3<\\/value>', new_string: '<\\/value>' },
      STORED.replace('3', ''),
    ],
    [
      'a patch',
      'memory_apply_patch',
      { patch: '-Send <value>3<\\/value>\n+Take <value>4<\\/value>' },
      STORED.replace('Send <value>3', 'Take <value>4'),
    ],
  ])('%s', (_name, tool, args, expected) => {
    expect(after(tool, { label: 'human', ...args })).toBe(expected);
  });

  test('is left alone where the prompt shows no such tag, and for tags shown unchanged', () => {
    const args = { label: 'human', content: '<\\/value> <\\/b> <\\/other>' };
    expect(after('core_memory_append', args, 'a </b>')).toBe('a </b>\n<\\/value> <\\/b> <\\/other>');
  });

  test('is left alone where stored text itself holds the escaped tag', () => {
    const stored = '</value> and <\\/value>';
    expect(after('memory_rethink', { label: 'human', new_memory: `${stored}!` }, stored)).toBe(`${stored}!`);
    expect(
      after('memory_rethink', { label: 'human', new_memory: 'a <\\/value>' }, '</value>', '<\\/value>'),
    ).toBe('a <\\/value>');
  });

  test('may come from another block', () => {
    expect(after('core_memory_append', { label: 'human', content: '<\\/value>' }, 'a', '</value>')).toBe(
      'a\n</value>',
    );
  });
});

test('shown text is restored, unless it holds both forms', () => {
  const tags = tagNames(['human']);
  const part = fc.constantFrom('</', '<\\/', '<', '>', 'value', 'human', ' ', '\n', 'x');
  const text = fc.array(part, { maxLength: 12 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(text, (stored) => {
      const shown = neutraliseClosingTags(stored, tags);
      const { a } = restoreClosingTags({ a: shown }, [stored], tags);
      expect(stored.includes('<\\/') || a === stored).toBe(true);
      expect(restoreClosingTags({ a: stored, b: 1 }, [stored], tags)).toEqual({ a: stored, b: 1 });
    }),
    { numRuns: 500 },
  );
});

test.each(['<\\/', '<\\/value', '<\\/value>'])('a long text of %j is restored at once', (part) => {
  const a = part.repeat(100_000 / part.length);
  const restore = () => restoreClosingTags({ a }, ['</value>'.repeat(10_000)], tagNames([]));
  expect(cpuMsOf(restore)).toBeLessThan(1000);
});
