import { expect, test } from 'vitest';
import { renderFields } from '../src/fields.ts';

test('fields stand below each other; a text of several lines is moved in', () => {
  expect(
    renderFields([
      ['id', 'a'],
      ['tags', ['x', 'y']],
      ['none', null],
      ['text', 'one\ntwo'],
    ]),
  ).toBe('id    a\ntags  x, y\nnone  -\ntext  one\n      two');
});

test('neither a name nor a value rules the terminal, also inside of a structure', () => {
  const hostile = '\u009B2J\u202E';
  const text = renderFields([
    [`block ${hostile}`, hostile],
    ['body', { text: hostile }],
    ['list', [hostile]],
  ]);
  expect(text).not.toMatch(/[\u009B\u202E]/);
});
