import { applyPatch, createTwoFilesPatch } from 'diff';
import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  describeChange,
  isShrinkAlarm,
  type ComparedRevisions,
  type CreatePatch,
} from '../../src/memory/change.ts';

const createPatch: CreatePatch = createTwoFilesPatch;

function change(before: string, after: string, rest: Partial<ComparedRevisions> = {}) {
  const given = { label: 'human', from_revision: 1, to_revision: 2, before, after, ...rest };
  return describeChange(given, createPatch);
}

describe('a change of memory', () => {
  test('is shown as a unified diff with its sizes', () => {
    expect(change('Name: Ann\nCity: Oslo\n', 'Name: Ann\nCity: 😀\nAge: 5\n')).toEqual({
      label: 'human',
      from_revision: 1,
      to_revision: 2,
      diff: '--- human@1\n+++ human@2\n@@ -1,2 +1,3 @@\n Name: Ann\n-City: Oslo\n+City: 😀\n+Age: 5\n',
      chars_before: 21,
      chars_after: 25,
      lines_added: 2,
      lines_removed: 1,
      shrunk: false,
    });
  });

  test('that made a block begins with nothing', () => {
    const { diff, lines_added } = change('', 'a', { from_revision: null, to_revision: 1 });
    expect(diff).toMatch(/^--- \/dev\/null\n\+\+\+ human@1\n@@ -0,0 \+1(,1)? @@\n\+a\n/);
    expect(lines_added).toBe(1);
  });

  test('of nothing is empty', () => {
    expect(change('a', 'a')).toMatchObject({ diff: '', lines_added: 0, lines_removed: 0 });
  });

  test('keeps a label with line breaks on one line', () => {
    expect(change('a', 'b', { label: 'x\ny' }).diff.split('\n')[0]).toContain('x y@1');
  });

  test('counts lines that look like headings', () => {
    expect(change('-- a\nb', '++ a\nb')).toMatchObject({ lines_added: 1, lines_removed: 1 });
  });

  test('too large for a shortest diff is shown as a replacement that also applies', () => {
    const text = (sign: string, end: string): string =>
      Array.from({ length: 3_000 }, (_, index) => `${sign} ${index}`).join('\n') + end;
    for (const [before, after] of [
      [text('a', ''), text('b', '\n')],
      [text('a', '\n'), text('b', '')],
    ] as const) {
      const { diff, lines_added, lines_removed } = change(before, after);
      expect(diff.startsWith('--- human@1\n+++ human@2\n@@ -1,3000 +1,3000 @@\n-a 0\n')).toBe(true);
      expect([lines_added, lines_removed]).toEqual([3_000, 3_000]);
      expect(applyPatch(before, diff)).toBe(after);
    }
    const giveUp: CreatePatch = () => undefined;
    const given = { label: 'human', from_revision: 1, to_revision: 2, before: 'a\n', after: '' };
    expect(describeChange(given, giveUp).diff).toBe('--- human@1\n+++ human@2\n@@ -1,1 +0,0 @@\n-a\n');
  });

  test('of any texts turns one into the other', () => {
    const text = fc
      .array(fc.constantFrom('a', 'b', '-', '+', ' ', ''), { maxLength: 8 })
      .map((lines) => lines.join('\n'));
    fc.assert(
      fc.property(text, text, (before, after) => {
        const { diff } = change(before, after);
        if (before === after) expect(diff).toBe('');
        else expect(applyPatch(before, diff)).toBe(after);
      }),
    );
  });
});

describe('the shrink alarm', () => {
  test('goes off when most of a text is lost, except for short texts', () => {
    expect(isShrinkAlarm({ chars_before: 1000, chars_after: 400 })).toBe(true);
    expect(isShrinkAlarm({ chars_before: 1000, chars_after: 401 })).toBe(false);
    expect(isShrinkAlarm({ chars_before: 199, chars_after: 0 })).toBe(false);
    expect(isShrinkAlarm({ chars_before: 1000, chars_after: 2000 })).toBe(false);
    expect(isShrinkAlarm({ chars_before: 100, chars_after: 90 }, { loss_ratio: 0.1, chars_min: 0 })).toBe(
      true,
    );
  });

  test('is part of the change', () => {
    expect(change('x'.repeat(500), 'x').shrunk).toBe(true);
  });
});
