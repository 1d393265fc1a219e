import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import { mergeThreeWay } from '../../src/memory/merge.ts';
import { cpuMsOf } from '../../../../test/cpu-time.ts';
import { diff3 } from './diff3.ts';

const join = (lines: readonly string[]): string => lines.join('\n');
const linesOf = (text: string): readonly string[] => (text === '' ? [] : text.split('\n'));

function merge(base: string, current: string, mine: string): string | null {
  const merged = mergeThreeWay(base, current, mine, diff3);
  return merged.ok ? merged.value : null;
}

describe('merging two changes of a text', () => {
  test.each<[string, string, string, string, string | null]>([
    ['changed lines that lie apart', 'a b c d e', 'A b c d e', 'a b c d E', 'A b c d E'],
    ['changed neighbouring lines', 'a b', 'A b', 'a B', 'A B'],
    ['changed neighbouring lines, the other way round', 'a b', 'a B', 'A b', 'A B'],
    ['the last line changed and a line appended', 'a b', 'a B', 'a b c', 'a B c'],
    ['a line appended and the last line changed', 'a b', 'a b c', 'a B', 'a B c'],
    ['a line removed beside a changed line', 'a b c', 'a c', 'a b C', 'a C'],
    ['lines inserted before and after a line', 'a', 'x a', 'a y', 'x a y'],
    ['both appended: the committed comes first', 'a', 'a x', 'a y', 'a x y'],
    ['both appended the same', 'a', 'a x', 'a x', 'a x'],
    ['both appended, beginning alike', 'a', 'a x y', 'a x z', 'a x y z'],
    ['both appended, ending alike', 'a', 'a y x', 'a z x', 'a y z x'],
    ['both began an empty text', '', 'x', 'y', 'x y'],
    ['one side cleared lines that the other left', 'a b', '', 'a b', ''],
    ['both cleared', 'a b', '', '', ''],
    ['both removed different lines', 'a b c', 'b c', 'a b', 'b'],
    ['the same change twice beside others', 'a b c d', 'A b c', 'A b c d', 'A b c'],
    ['both changed one line', 'a b c', 'a X c', 'a Y c', null],
    ['one side changed a line that the other removed', 'a b c', 'a c', 'a B c', null],
    ['one side removed all, the other changed a part', 'a b c', '', 'a B c', null],
    ['an insertion inside a replacement by the other side', 'a b c d', 'a X Y d', 'a b n c d', null],
    ['both rewrote everything', 'a b c', 'x y', 'p q', null],
  ])('%s', (_what, base, current, mine, expected) => {
    const text = (words: string): string => words.replaceAll(' ', '\n');
    expect(merge(text(base), text(current), text(mine))).toBe(expected === null ? null : text(expected));
  });

  test('names the lines that both changed', () => {
    expect(mergeThreeWay('a\nb\nc', 'a\nX\nc', 'a\nY\nc', diff3)).toEqual({ ok: false, lines: ['b'] });
  });

  test('keeps the end of a text unchanged, and lines that are names of object members', () => {
    expect(merge('a\n', 'a\nb\n', 'A\n')).toBe('A\nb\n');
    expect(merge('__proto__\nx', '__proto__\nx\nconstructor', 'toString\nx')).toBe(
      'toString\nx\nconstructor',
    );
  });

  test('gives up on texts whose comparison would take minutes', () => {
    const blanks = (count: number): string => '\n'.repeat(count);
    const texts = [`a${blanks(20_000)}b`, `c${blanks(20_001)}d`, `e${blanks(20_002)}f`] as const;
    const giveUp = () => expect(mergeThreeWay(...texts, diff3)).toEqual({ ok: false, lines: [] });
    expect(cpuMsOf(giveUp)).toBeLessThan(5_000);
  });

  test('a long text with a small change is merged', () => {
    const lines = Array.from({ length: 20_000 }, (_, index) => `line ${index % 7}`);
    const text = join(lines);
    expect(merge(text, `${text}\nx`, `${text}\ny`)).toBe(`${text}\nx\ny`);
  });

  describe('of more lines than a call takes arguments', () => {
    const many = join(Array.from({ length: 140_000 }, (_, index) => `line ${index}`));
    test.each<[string, string, string, string, string]>([
      ['inserted by one of them', 'p\nb\nq', 'P\nb\nq', `p\nb\n${many}\nq`, `P\nb\n${many}\nq`],
      [
        'inserted by both alike',
        'p\nb\nc\nq',
        `P\nb\n${many}\nc\nq`,
        `p\nb\n${many}\nc\nQ`,
        `P\nb\n${many}\nc\nQ`,
      ],
      ['inserted by both at one place', 'a', `a\nx\n${many}`, `a\n${many}\ny`, `a\nx\n${many}\n${many}\ny`],
    ])('%s, loses none', (_what, base, current, mine, expected) => {
      // Not `toBe`, which would print them.
      expect(merge(base, current, mine) === expected).toBe(true);
    });
  });
});

type Edit = readonly [index: number, kind: string];
const edits = fc.array(fc.tuple(fc.nat(11), fc.constantFrom('change', 'insert', 'remove')), { maxLength: 6 });

/** Changes a line as a side does; lines name their side, so that kept lines can be checked singly. */
function linesAfter(line: string, index: number, side: string, changes: readonly Edit[]): readonly string[] {
  return changes.reduce<readonly string[]>(
    (lines, [at, kind]) => {
      if (at !== index) return lines;
      if (kind === 'remove') return [];
      return kind === 'change' ? [`${side} changed ${index}`] : [...lines, `${side} added ${index}`];
    },
    [line],
  );
}

describe('for any two changes', () => {
  const base = Array.from({ length: 12 }, (_, index) => `line ${index}`);

  test('changes of different lines merge, with every line of both', () => {
    fc.assert(
      fc.property(edits, edits, (first, second) => {
        const touched = new Set(first.map(([index]) => index));
        const others = second.filter(([index]) => !touched.has(index));
        const theirs = base.flatMap((line, index) => linesAfter(line, index, 'their', first));
        const ours = base.flatMap((line, index) => linesAfter(line, index, 'our', others));
        const both = base.flatMap((line, index) =>
          touched.has(index)
            ? linesAfter(line, index, 'their', first)
            : linesAfter(line, index, 'our', others),
        );
        expect(merge(join(base), join(theirs), join(ours))).toBe(join(both));
      }),
    );
  });

  test('a merge holds every line that either side added, and no other', () => {
    const word = fc.constantFrom('a', 'b', 'c', 'd');
    const anyText = fc.array(word, { maxLength: 8 }).map(join);
    fc.assert(
      fc.property(anyText, anyText, anyText, (original, theirs, ours) => {
        const merged = merge(original, theirs, ours);
        if (merged === null) return;
        const kept = linesOf(merged);
        const known = [original, theirs, ours].flatMap(linesOf);
        expect(known).toEqual(expect.arrayContaining([...kept]));
        const added = [theirs, ours].flatMap(linesOf).filter((line) => !linesOf(original).includes(line));
        expect(kept).toEqual(expect.arrayContaining(added));
      }),
      { numRuns: 300 },
    );
  });

  test('a change against an unchanged text is that change', () => {
    const anyText = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 6 }).map(join);
    fc.assert(
      fc.property(anyText, anyText, (original, changed) => {
        expect(merge(original, original, changed)).toBe(changed);
        expect(merge(original, changed, original)).toBe(changed);
        expect(merge(original, changed, changed)).toBe(changed);
      }),
    );
  });

  test('hundreds of agents that each append, or each change their own line, lose nothing', () => {
    const lines = Array.from({ length: 300 }, (_, index) => `slot ${index}: open`);
    let current = join(lines);
    for (let agent = 0; agent < 300; agent++) {
      const own = lines.with(agent, `slot ${agent}: done`);
      const mine = join(agent % 2 === 0 ? own : [...lines, `note ${agent}`]);
      current = merge(join(lines), current, mine) ?? expect.fail(`agent ${agent} met a conflict`);
    }
    const kept = new Set(current.split('\n'));
    for (let agent = 0; agent < 300; agent++) {
      expect(kept).toContain(agent % 2 === 0 ? `slot ${agent}: done` : `note ${agent}`);
    }
    expect(kept.size).toBe(450);
  });
});
