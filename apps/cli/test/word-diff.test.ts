import { describe, expect, test } from 'vitest';
import { layOut, widthOf, wordDiff, type DiffLine, type Layout, type Segment } from '../src/word-diff.ts';

/** Writes segments as `[-removed-]{+added+}same`. */
function short(segments: readonly Segment[]): string {
  return segments
    .map(({ kind, text }) => (kind === 'same' ? text : kind === 'removed' ? `[-${text}-]` : `{+${text}+}`))
    .join('');
}

/** Writes lines as texts; folded lines as their number. */
function linesOf(lines: readonly DiffLine[]): (string | number)[] {
  return lines.map((line) => (typeof line === 'number' ? line : line.map(({ text }) => text).join('')));
}

const LAYOUT: Layout = { columns: 40, context: 1, isMarked: true };

describe('two texts are compared by words', () => {
  test.each([
    ['equal texts', 'one two', 'one two', 'one two'],
    ['a changed word', 'likes red tea', 'likes green tea', 'likes [-red-]{+green+} tea'],
    [
      'a changed phrase is one change',
      'is in Berlin now',
      'was at Hamburg now',
      '[-is in Berlin-]{+was at Hamburg+} now',
    ],
    ['an added end', 'one', 'one two', 'one{+ two+}'],
    ['a removed start', 'one two', 'two', '[-one -]two'],
    ['a new text', '', 'new', '{+new+}'],
    ['a removed text', 'old', '', '[-old-]'],
    ['no texts', '', '', ''],
    ['an added line', 'a\nc\n', 'a\nb\nc\n', 'a\n{+b\n+}c\n'],
  ])('%s', (_name, before, after, shown) => {
    expect(short(wordDiff(before, after))).toBe(shown);
  });

  test('removed and same segments make the old text, added and same ones the new text', () => {
    const before = 'Name: Ann\nLikes  red tea, and walks.\n\nMoved in 2024.';
    const after = 'Name: Ann B.\nLikes green tea and long walks.\nMoved in 2025.\n';
    const without = (kind: string): string =>
      wordDiff(before, after)
        .filter((segment) => segment.kind !== kind)
        .map(({ text }) => text)
        .join('');
    expect(without('added')).toBe(before);
    expect(without('removed')).toBe(after);
  });

  test('long texts without a common word are compared as a whole, within seconds', () => {
    const words = (name: string): string =>
      Array.from({ length: 30_000 }, (_, place) => `${name}${place}`).join(' ');
    const segments = wordDiff(words('a'), words('b'));
    expect(segments.map(({ kind }) => kind)).toEqual(['removed', 'added']);
  });
});

describe('a difference is laid out in lines of the terminal', () => {
  const show = (before: string, after: string, layout: Partial<Layout> = {}) =>
    linesOf(layOut(wordDiff(before, after), { ...LAYOUT, ...layout }));

  test('unchanged lines away from a change are folded to their number', () => {
    const lines = Array.from({ length: 10 }, (_, place) => `line ${place}`);
    const before = lines.join('\n');
    expect(show(before, before.replace('line 5', 'row 5'))).toEqual([
      4,
      'line 4',
      '[-line-]{+row+} 5',
      'line 6',
      3,
    ]);
  });

  test('a single unchanged line is shown, not folded', () => {
    expect(show('a\nb\nc\nd', 'A\nb\nc\nD', { context: 0 })).toEqual(['[-a-]{+A+}', 2, '[-d-]{+D+}']);
    expect(show('a\nb\nd', 'A\nb\nD', { context: 0 })).toEqual(['[-a-]{+A+}', 'b', '[-d-]{+D+}']);
  });

  test('without a fold all lines are shown', () => {
    const before = 'a\nb\nc\nd\ne';
    expect(show(before, `${before}\nf`, { context: Number.POSITIVE_INFINITY })).toHaveLength(6);
  });

  test('long lines are wrapped at blanks, and long words are cut', () => {
    const lines = show('', 'one two three four 12345678901234567890', { columns: 10, isMarked: false });
    expect(lines).toEqual(['one two ', 'three four ', '1234567890', '1234567890']);
  });

  test('no line is wider than the terminal, wide characters included', () => {
    const lines = show('', '数据库 数据库数据库 and ünïcödé words 🎉🎉🎉', { columns: 8, isMarked: false });
    for (const line of lines) expect(widthOf(String(line).trimEnd())).toBeLessThanOrEqual(8);
  });

  test('a changed empty line is visible', () => {
    expect(show('a\nb', 'a\n\nb')).toEqual(['a', '{+↵+}', 'b']);
  });

  test('control characters cannot rule the terminal', () => {
    const shown = show('', 'a\u001B[2Jb\rc', { isMarked: false }).join('');
    expect(shown).not.toMatch(/[\u001B\r]/);
  });
});
