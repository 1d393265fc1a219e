import { describe, expect, test } from 'vitest';
import { DEFECTS } from '../../scripts/docs/defects.ts';
import { proofs } from '../../scripts/docs/defects-page.ts';
import { titlesIn } from '../../scripts/docs/test-titles.ts';

const defects = DEFECTS.flatMap((group) => group.defects);
const shown = proofs();

describe('the table of known defects', () => {
  test.each(defects.filter(({ absent }) => absent === undefined))(
    '$row is shown not to be here: a test carries its name',
    ({ row }) => expect(shown.get(row) ?? []).not.toEqual([]),
  );

  test('names no row as untested that a test carries, and tests carry no other names', () => {
    const tested = new Set(defects.filter(({ absent }) => absent === undefined).map(({ row }) => row));
    expect([...shown.keys()].filter((row) => !tested.has(row))).toEqual([]);
  });

  test('has every row once, in order', () => {
    const places = defects.map(({ row }) => {
      const [, number, letter] = /^B(\d+)([a-d]?)$/.exec(row) ?? [];
      return Number(number) + (letter === '' ? 0 : (letter ?? 'z').charCodeAt(0) / 1_000);
    });
    expect(places).toEqual([...new Set(places)].sort((a, b) => a - b));
  });
});

describe('the titles of a test file', () => {
  const titles = (source: string): readonly string[] =>
    titlesIn(source, 'a.test.ts').map(({ title }) => title);

  test('stand behind those of their groups', () => {
    expect(
      titles(`test('a', () => {});
        describe('b', () => { test('c', () => {}); describe('d', () => { test("e", () => {}); }); });`),
    ).toEqual(['a', 'b › c', 'b › d › e']);
  });

  test('of a table come with its texts', () => {
    expect(titles(`test.each([['x', 1], ['y', 2]])('of %s', () => {})`)).toEqual(['of %s', 'of x', 'of y']);
    expect(titles(`describe.each(TABLE)('of $name', () => { test.for([1])('one', () => {}) })`)).toEqual([
      'of $name › one',
    ]);
  });

  test('of skipped tests do not count, always or on some machines', () => {
    expect(
      titles(`test.skip('a', () => {}); test.todo('b'); test.runIf(X)('c', () => {});
        describe.skipIf(X)('d', () => { test('e', () => {}) }); describe.skip('f', () => { test('g', () => {}) });`),
    ).toEqual([]);
  });
});
