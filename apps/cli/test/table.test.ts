import { styleText } from 'node:util';
import { expect, test } from 'vitest';
import { paintedOf, plainOf, renderTable } from '../src/table.ts';

const ID = 'job-01a21d53-ef53-797c-a557-0865f3ef0f4b';

test('columns are as wide as their widest cell; numbers stand to the right', () => {
  const { text } = renderTable(
    ['name', 'runs'],
    [
      ['a', 7],
      ['long name', 1200],
    ],
    80,
  );
  expect(text).toBe('NAME       RUNS\na             7\nlong name  1200\n');
});

test('a narrow terminal cuts the widest column, and never an id', () => {
  const { text } = renderTable(['id', 'name'], [[ID, 'a name of some length']], 56);
  expect(text.split('\n')[1]).toBe(`${ID}  a name of som…`);
});

test('a missing value is a dash, line ends are blanks, and control characters cannot rule the terminal', () => {
  const { text } = renderTable(undefined, [[null, 'a\nb', '\u001B[31mred']], 80);
  expect(text).toBe('-  a b  \uFFFD[31mred\n');
});

test('a stored text can neither rule the terminal nor turn its direction', () => {
  expect(plainOf('a\u009B2Jb\u202Ec\u2066d\u061Ce\n\tf')).toBe('a\uFFFD2Jb\uFFFDc\uFFFDd\uFFFDe\n\tf');
  // Joins of letters and of pictures are no directions.
  expect(plainOf('👩\u200D🚀 می\u200Cخواهم')).toBe('👩\u200D🚀 می\u200Cخواهم');
});

test('a painted text keeps its styles, and no other sequence', () => {
  const painted = styleText('red', 'a\u001B[2J', { validateStream: false });
  expect(paintedOf(painted)).toBe('\u001B[31ma\uFFFD[2J\u001B[39m');
  expect(paintedOf('\u001B[8mhidden')).toBe('\uFFFD[8mhidden');
});

test('later rows keep the widths of the first', () => {
  const { widths } = renderTable(['name'], [['four']], 80);
  expect(renderTable(undefined, [['longer']], 80, widths).text).toBe('lon…\n');
});

test('times are shown to the minute, in UTC', () => {
  expect(renderTable(undefined, [['2026-12-01T02:03:04.567Z']], 8).text).toBe('2026-12-01T02:03Z\n');
});
