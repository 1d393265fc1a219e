import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { applyMemoryTool } from '../../src/memory/apply.ts';
import { isMemoryTool, MEMORY_TOOLS } from '../../src/memory/definitions.ts';
import { isStoreCall } from '../../src/memory/store-tools.ts';
import { BLOCK_TOOLS } from '../../src/memory/toolset.ts';
import { codePointLength } from '../../src/memory/text.ts';
import { checkInputSchema } from '../../src/tools/validate.ts';
import { makeBlock } from './blocks.ts';

/** The tools that edit the text of a block. */
const EDIT_TOOLS = MEMORY_TOOLS.filter((tool) => !BLOCK_TOOLS.includes(tool) && !isStoreCall(tool.name));

const human = makeBlock('human', 'Name: Ann\nCity: Oslo\nName: Bob');
const persona = makeBlock('persona', '');
const blocks = [human, persona, makeBlock('rules', 'be kind', { read_only: true })];

/** Returns the block's new value and the text for the model. */
function apply(tool: string, args: JsonObject, on = blocks) {
  const { outcome, write } = applyMemoryTool(tool, args, on);
  return { ok: outcome.ok, result: outcome.result, value: write?.value ?? null };
}

describe('the effect of each tool', () => {
  test.each<[string, JsonObject, string, string | null]>([
    [
      'core_memory_append',
      { label: 'human', content: 'Age: 5' },
      'Name: Ann\nCity: Oslo\nName: Bob\nAge: 5',
      null,
    ],
    ['core_memory_append', { label: 'persona', content: 'x' }, '\nx', null],
    [
      'core_memory_replace',
      { label: 'human', old_content: 'Name', new_content: 'N' },
      'N: Ann\nCity: Oslo\nN: Bob',
      null,
    ],
    [
      'core_memory_replace',
      { label: 'human', old_content: '\nCity: Oslo', new_content: '' },
      'Name: Ann\nName: Bob',
      null,
    ],
    ['core_memory_replace', { label: 'persona', old_content: '', new_content: 'x' }, 'x', null],
    [
      'rethink_memory',
      { target_block_label: 'human', new_memory: 'all new' },
      'all new',
      "Memory block 'human' was rewritten: 7 of at most 100000 characters.",
    ],
    ['memory_rethink', { label: 'human', new_memory: '' }, '', null],
    [
      'memory_replace',
      { label: 'human', old_string: 'Oslo', new_string: 'Rome' },
      'Name: Ann\nCity: Rome\nName: Bob',
      null,
    ],
    [
      'memory_replace',
      { label: 'human', old_string: 'Ann\nCity: ', new_string: '' },
      'Name: Oslo\nName: Bob',
      null,
    ],
    ['memory_replace', { label: 'persona', old_string: '', new_string: 'x' }, 'x', null],
    ['memory_insert', { label: 'human', new_string: 'Z' }, 'Name: Ann\nCity: Oslo\nName: Bob\nZ', null],
    [
      'memory_insert',
      { label: 'human', new_string: 'Z', insert_line: -1 },
      'Name: Ann\nCity: Oslo\nName: Bob\nZ',
      null,
    ],
    [
      'memory_insert',
      { label: 'human', new_string: 'Z', insert_line: 0 },
      'Z\nName: Ann\nCity: Oslo\nName: Bob',
      null,
    ],
    [
      'memory_insert',
      { label: 'human', new_string: 'Y\nZ', insert_line: 2 },
      'Name: Ann\nCity: Oslo\nY\nZ\nName: Bob',
      null,
    ],
    [
      'memory_insert',
      { label: 'human', new_string: 'Z', insert_line: 3 },
      'Name: Ann\nCity: Oslo\nName: Bob\nZ',
      null,
    ],
    [
      'memory_insert',
      { label: 'human', new_string: 'Z', insert_line: null },
      'Name: Ann\nCity: Oslo\nName: Bob\nZ',
      null,
    ],
  ])('%s %j', (tool, args, value, result) => {
    expect(apply(tool, args)).toEqual({ ok: true, result: result ?? value, value });
  });

  test('the write names the block and its base revision', () => {
    const { write } = applyMemoryTool('memory_rethink', { label: 'human', new_memory: 'x' }, blocks);
    expect(write).toEqual({ block_id: human.block_id, based_on_revision: 3, value: 'x' });
  });

  test('an unchanged value is a success without a write, even beyond the limit', () => {
    const full = [makeBlock('human', 'too long', { char_limit: 3 })];
    expect(apply('memory_rethink', { label: 'human', new_memory: 'too long' }, full)).toEqual({
      ok: true,
      result: 'too long',
      value: null,
    });
    expect(
      apply('core_memory_replace', { label: 'human', old_content: 'Ann', new_content: 'Ann' }).value,
    ).toBe(null);
  });
});

describe('the refusals of each tool and their texts for the model', () => {
  const over = [makeBlock('small', 'abc', { char_limit: 5 })];

  test.each<[string, JsonObject, string]>([
    [
      'memory_rethink',
      { label: 'nope', new_memory: 'x' },
      "KeyError: Memory block 'nope' does not exist. Existing labels: human, persona, rules.",
    ],
    [
      'rethink_memory',
      { target_block_label: 'nope', new_memory: 'x' },
      "KeyError: Memory block 'nope' does not exist. Existing labels: human, persona, rules.",
    ],
    [
      'core_memory_append',
      { label: 'rules', content: 'x' },
      "ValueError: Memory block 'rules' is read-only and cannot be edited.",
    ],
    [
      'core_memory_replace',
      { label: 'human', old_content: 'Zed', new_content: '' },
      "ValueError: The old content `Zed` was not found in memory block 'human'.",
    ],
    [
      'core_memory_replace',
      { label: 'human', old_content: '', new_content: 'x' },
      "ValueError: Argument 'old_content' must not be empty: name the text to replace, or insert or append instead.",
    ],
    [
      'memory_replace',
      { label: 'human', old_string: '', new_string: 'x' },
      "ValueError: Argument 'old_string' must not be empty: name the text to replace, or insert or append instead.",
    ],
    [
      'memory_replace',
      { label: 'human', old_string: 'Zed', new_string: 'x' },
      "ValueError: Nothing was replaced: old_string `Zed` does not stand in memory block 'human'. Copy it exactly as it is there.",
    ],
    [
      'memory_replace',
      { label: 'human', old_string: 'Name', new_string: 'x' },
      'ValueError: Nothing was replaced: old_string `Name` stands in more than one place (lines 1, 3). Add surrounding text to make it unique.',
    ],
    [
      'memory_insert',
      { label: 'human', new_string: 'x', insert_line: 4 },
      "ValueError: Invalid insert_line 4: it must be a line of memory block 'human', in the range [0, 3], or -1 to append at the end.",
    ],
    [
      'memory_insert',
      { label: 'human', new_string: 'x', insert_line: -2 },
      "ValueError: Invalid insert_line -2: it must be a line of memory block 'human', in the range [0, 3], or -1 to append at the end.",
    ],
    [
      'memory_insert',
      { label: 'human', new_string: 'x', insert_line: 1.5 },
      "TypeError: Argument 'insert_line' must be an integer.",
    ],
    [
      'memory_insert',
      { label: 'human', new_string: 'x', insert_line: '1' },
      "TypeError: Argument 'insert_line' must be an integer.",
    ],
    ['memory_insert', { label: 'human' }, "TypeError: Argument 'new_string' is missing."],
    ['memory_rethink', { label: 7, new_memory: 'x' }, "TypeError: Argument 'label' must be a string."],
    ['forget', { label: 'human' }, 'KeyError: There is no built-in memory tool of this name.'],
    ['constructor', {}, 'KeyError: There is no built-in memory tool of this name.'],
  ])('%s %j', (tool, args, message) => {
    expect(apply(tool, args)).toEqual({
      ok: false,
      result: `Error executing function ${tool}: ${message}`,
      value: null,
    });
  });

  test.each<[string, JsonObject, number]>([
    ['memory_rethink', { label: 'small', new_memory: '123456' }, 6],
    ['rethink_memory', { target_block_label: 'small', new_memory: '1234567' }, 7],
    ['core_memory_append', { label: 'small', content: 'de' }, 6],
    ['core_memory_replace', { label: 'small', old_content: 'b', new_content: 'bbbb' }, 6],
    ['memory_replace', { label: 'small', old_string: 'b', new_string: 'bbbb' }, 6],
    ['memory_insert', { label: 'small', new_string: '12345' }, 9],
  ])('%s tells how many characters a value is over the limit', (tool, args, length) => {
    expect(apply(tool, args, over)).toEqual({
      ok: false,
      result:
        `Error executing function ${tool}: ValueError: Memory block 'small' would hold ${length} characters, ` +
        `${length - 5} more than its limit of 5. Nothing was changed; shorten the text and call again.`,
      value: null,
    });
  });

  test('without blocks the error says so', () => {
    expect(apply('memory_rethink', { label: 'a', new_memory: 'x' }, []).result).toBe(
      "Error executing function memory_rethink: KeyError: Memory block 'a' does not exist. The agent has no memory blocks.",
    );
  });

  test('an error has at most 1000 characters and is well formed', () => {
    for (let shift = 0; shift < 2; shift++) {
      const label = 'x'.repeat(shift) + '😀'.repeat(2000);
      const { result } = apply('memory_rethink', { label, new_memory: 'x' });
      expect(result.length).toBe(1000);
      expect(result.isWellFormed()).toBe(true);
    }
  });

  test('a replacement that would grow to gigabytes is refused without being built', () => {
    const large = [makeBlock('large', 'a'.repeat(100_000))];
    const { result } = apply(
      'core_memory_replace',
      { label: 'large', old_content: 'a', new_content: 'b'.repeat(100_000) },
      large,
    );
    expect(result).toContain('would hold 10000000000 characters');
  });

  test('an ambiguous text of a repeated letter names at most twenty places', () => {
    const large = [makeBlock('large', 'a\n'.repeat(50_000))];
    const { result } = apply('memory_replace', { label: 'large', old_string: 'a', new_string: 'b' }, large);
    expect(result).toContain(
      '(lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, …)',
    );
  });

  test('lines are named for a text of several lines, and overlapping places count', () => {
    const on = [makeBlock('a', 'x\ny\nx\ny\nx'), makeBlock('b', '---')];
    expect(apply('memory_replace', { label: 'a', old_string: 'x\ny', new_string: '' }, on).result).toContain(
      '(lines 1, 3)',
    );
    expect(apply('memory_replace', { label: 'b', old_string: '--', new_string: '' }, on).result).toContain(
      '(lines 1)',
    );
  });

  test('a long text is quoted in part', () => {
    const { result } = apply('memory_replace', {
      label: 'human',
      old_string: 'q'.repeat(300),
      new_string: '',
    });
    expect(result).toContain(`\`${'q'.repeat(200)}…\``);
  });
});

describe('line numbers of the prompt are not stored', () => {
  const prefix = 'a line number prefix, which is only shown for reading. Call again without it.';
  test.each<[string, JsonObject, string]>([
    ['memory_insert', { label: 'human', new_string: '1→ x' }, `Argument 'new_string' contains ${prefix}`],
    [
      'memory_insert',
      { label: 'human', new_string: 'ok\n \t12→x' },
      `Argument 'new_string' contains ${prefix}`,
    ],
    [
      'memory_replace',
      { label: 'human', old_string: '1→ Name', new_string: 'x' },
      `Argument 'old_string' contains ${prefix}`,
    ],
    [
      'memory_replace',
      { label: 'human', old_string: 'Oslo', new_string: '2→ x' },
      `Argument 'new_string' contains ${prefix}`,
    ],
    ['memory_rethink', { label: 'human', new_memory: '١→ x' }, `Argument 'new_memory' contains ${prefix}`],
    [
      'rethink_memory',
      { target_block_label: 'human', new_memory: '1→ x' },
      `Argument 'new_memory' contains ${prefix}`,
    ],
    ['core_memory_append', { label: 'human', content: '1→ x' }, `Argument 'content' contains ${prefix}`],
    [
      'core_memory_replace',
      { label: 'human', old_content: '1→ N', new_content: '' },
      `Argument 'old_content' contains ${prefix}`,
    ],
    [
      'memory_rethink',
      { label: 'human', new_memory: "# NOTE: Line numbers shown below (with arrows like '1→') are to help" },
      "Argument 'new_memory' contains the line number warning",
    ],
  ])('%s %j', (tool, args, message) => {
    const { ok, result } = apply(tool, args);
    expect(ok).toBe(false);
    expect(result).toContain(`ValueError: ${message}`);
  });

  test('an arrow anywhere else is text', () => {
    expect(apply('memory_rethink', { label: 'human', new_memory: 'A1→B2\n→ c' }).value).toBe('A1→B2\n→ c');
  });
});

describe('memory_replace and lines that end with \\r\\n', () => {
  const on = [makeBlock('a', 'x\r\ny\r\nz\nx\nw')];
  test.each([
    ['x\ny', 'p\nq', 'p\r\nq\r\nz\nx\nw'],
    ['y\nz', '', 'x\r\n\nx\nw'],
    ['z\nx', 'p\nq', 'x\r\ny\r\np\nq\nw'],
    ['x\r\ny', 'p\nq', 'p\nq\r\nz\nx\nw'],
    ['y\nz\nx', 'p', null],
  ])('%j becomes %j', (old_string, new_string, expected) => {
    const { write } = applyMemoryTool('memory_replace', { label: 'a', old_string, new_string }, on);
    expect(write?.value ?? null).toBe(expected);
  });

  test('is refused where both stand twice', () => {
    const twice = [makeBlock('a', 'x\r\ny\r\nx\r\ny')];
    const args = { label: 'a', old_string: 'x\ny', new_string: 'p' };
    expect(applyMemoryTool('memory_replace', args, twice).outcome.result).toContain('(lines 1, 3)');
  });
});

describe('memory_replace and tabs', () => {
  test.each([
    ['tabs match tabs and stay', 'a\tb\n\tc', 'a\tb', 'X', 'X\n\tc'],
    ['spaces match the tab they stand for', 'a\tb\n\tc', '        c', 'X', 'a\tb\nX'],
    ['the column decides the width', 'ab\tc\td', 'ab      c', 'X', 'X\td'],
    ['a tab matches spaces', 'x       y\tz', 'x\ty', 'X', 'X\tz'],
    ['a tab that is cut through leaves its spaces', 'a\tb', '   b', 'X', 'a    X'],
    ['a tab that is cut at its end leaves its spaces', '\tb', '   ', 'X', null],
    ['an astral character has one column', '😀\tb\t', '😀       b', 'X', 'X\t'],
    ['columns begin anew on each line', 'abc\na\tb\r\tc', 'a       b', 'X', 'abc\nX\r\tc'],
    ['the text itself may be replaced with tabs', 'a b', 'a b', '\t', '\t'],
    ['ambiguous as spaces', '\ta\n\ta', ' a', 'X', null],
    ['the exact match wins over a tab that reads the same', '\ta\n        a', ' a', 'X', '\ta\n       X'],
    ['the exact match wins over a match with spaces', '\ta\n        a', '\ta', 'X', 'X\n        a'],
  ])('%s', (_name, value, old_string, new_string, expected) => {
    const { write } = applyMemoryTool('memory_replace', { label: 'a', old_string, new_string }, [
      makeBlock('a', value),
    ]);
    expect(write?.value ?? null).toBe(expected);
  });

  test('a tab that is cut in its middle keeps both sides', () => {
    const { write } = applyMemoryTool(
      'memory_replace',
      { label: 'a', old_string: 'x\t    y', new_string: '-' },
      [makeBlock('a', 'x           y\tz')],
    );
    expect(write?.value).toBe('-\tz');
    const { outcome } = applyMemoryTool(
      'memory_replace',
      { label: 'a', old_string: 'q\tz', new_string: '-' },
      [makeBlock('a', '\tq')],
    );
    expect(outcome.ok).toBe(false);
  });
});

describe('text that Postgres cannot hold', () => {
  test('NUL and lone surrogates never reach a value, and match stored texts', () => {
    expect(apply('memory_rethink', { label: 'human', new_memory: 'a\u0000b\ud800c' }).value).toBe(
      'ab\ufffdc',
    );
    expect(
      apply('memory_replace', { label: 'hu\u0000man', old_string: 'Os\u0000lo', new_string: 'R' }).value,
    ).toBe('Name: Ann\nCity: R\nName: Bob');
  });
});

describe('for any call', () => {
  const text = fc.oneof(
    fc.string({
      unit: fc.constantFrom('a', 'b', ' ', '\t', '\n', '$', '&', '1', '→', '😀', '\u0000', '\ud800'),
      maxLength: 12,
    }),
    fc.constantFrom('$&', "$'", '$`', '$1', '$$', 'human', 'persona'),
  );
  const call = fc.record({
    tool: fc.constantFrom(...EDIT_TOOLS.map((tool) => tool.name)),
    args: fc.record(
      {
        label: fc.oneof(fc.constantFrom('human', 'persona', 'rules', 'none'), text),
        target_block_label: fc.constantFrom('human', 'persona', 'rules', 'none'),
        content: text,
        new_memory: text,
        old_content: text,
        new_content: text,
        old_string: text,
        new_string: text,
        insert_line: fc.oneof(fc.integer({ min: -2, max: 5 }), fc.constantFrom('1', 0.5, null)),
      },
      { requiredKeys: [] },
    ),
    values: fc.tuple(text, text, text),
    char_limit: fc.integer({ min: 0, max: 20 }),
  });

  test('it answers with text, writes only the named block, and never beyond its limit', () => {
    fc.assert(
      fc.property(call, ({ tool, args, values, char_limit }) => {
        const on = [
          makeBlock('human', values[0], { char_limit }),
          makeBlock('persona', values[1], { char_limit }),
          makeBlock('rules', values[2], { char_limit, read_only: true }),
        ];
        const frozen = JSON.stringify(on);
        const { outcome, write } = applyMemoryTool(tool, args, on);
        expect(typeof outcome.result).toBe('string');
        expect(JSON.stringify(on)).toBe(frozen);
        if (!outcome.ok) {
          expect(outcome.result.startsWith(`Error executing function ${tool}: `)).toBe(true);
          expect(write).toBe(null);
        }
        if (write === null) return;
        const named = on.find((block) => block.block_id === write.block_id);
        expect(named?.label).toBe(
          (tool === 'rethink_memory' ? args.target_block_label : args.label)?.replaceAll('\u0000', ''),
        );
        expect(named?.read_only).toBe(false);
        expect(write.value).not.toBe(named?.value);
        expect(codePointLength(write.value)).toBeLessThanOrEqual(char_limit);
      }),
      { numRuns: 3000 },
    );
  });

  test('replacement patterns of JavaScript are plain text', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('$&', "$'", '$`', '$1', '$$', '$<a>'),
        fc.constantFrom('memory_replace', 'core_memory_replace'),
        (special, tool) => {
          const args = {
            label: 'a',
            old_string: 'x',
            old_content: 'x',
            new_string: special,
            new_content: special,
          };
          const { write } = applyMemoryTool(tool, args, [makeBlock('a', '(x)')]);
          expect(write?.value).toBe(`(${special})`);
        },
      ),
    );
  });

  test('rethinking sets the value to the text, and appending keeps the old text', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (before, after) => {
        const on = [makeBlock('a', before)];
        const rethought = apply('memory_rethink', { label: 'a', new_memory: after }, on);
        if (rethought.ok) expect(rethought.value ?? before).toBe(after);
        const appended = apply('core_memory_append', { label: 'a', content: after }, on);
        if (appended.ok) expect(appended.value).toBe(`${before}\n${after}`);
      }),
    );
  });
});

describe('definitions', () => {
  test('every tool is carried out here, with the arguments that its schema requires', () => {
    for (const tool of EDIT_TOOLS) {
      const required = tool.input_schema['required'] as string[];
      const args = Object.fromEntries(
        required.map((name) => [name, name.includes('label') ? 'persona' : 'Oslo']),
      );
      expect([tool.name, apply(tool.name, args).result.includes('no built-in')]).toEqual([tool.name, false]);
      expect(tool).toMatchObject({ kind: 'memory', side_effects: 'none', return_char_limit: 50_000 });
      expect(tool.input_schema).toMatchObject({ type: 'object', additionalProperties: false });
      for (const name of required) {
        const { [name]: _left, ...rest } = args;
        expect(apply(tool.name, rest).result).toContain(`Argument '${name}' is missing`);
      }
    }
  });

  test('there are six that edit the text of a block', () => {
    expect(EDIT_TOOLS.map((tool) => tool.name).toSorted()).toEqual([
      'core_memory_append',
      'core_memory_replace',
      'memory_insert',
      'memory_replace',
      'memory_rethink',
      'rethink_memory',
    ]);
  });

  test('of all memory tools have names of their own and schemas that the provider takes', () => {
    const names = MEMORY_TOOLS.map((tool) => tool.name);
    expect(new Set(names).size).toBe(names.length);
    for (const tool of MEMORY_TOOLS) {
      expect(isMemoryTool(tool.name)).toBe(true);
      expect(checkInputSchema(tool.input_schema)).toBeNull();
      expect(tool).toMatchObject({ kind: 'memory', side_effects: 'none', requires_approval: false });
    }
    expect(isMemoryTool('web_search')).toBe(false);
  });
});
