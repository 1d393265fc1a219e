import { expect, test } from 'vitest';
import { z } from 'zod';
import { ISSUES_MAX, listOf, recordOf } from '../../src/base/bounded.ts';

/** Counts the items read. */
function counted() {
  let read = 0;
  const item = z.unknown().superRefine((value, context) => {
    read++;
    if (typeof value !== 'number') context.addIssue({ code: 'custom', message: 'must be a number' });
  });
  return { item, read: () => read };
}

test('a list within the limit reads as usual', () => {
  const list = listOf(
    z.string().transform((text) => text.length),
    3,
  );
  expect(list.parse(['a', 'bc'])).toEqual([1, 2]);
  expect(list.min(1, 'must not be empty').safeParse([]).error?.issues).toMatchObject([
    { message: 'must not be empty' },
  ]);
  expect(list.nullish().parse(null)).toBeNull();
  expect(list.describe('Words.').safeParse('a').error?.issues).toMatchObject([
    { code: 'invalid_type', path: [] },
  ]);
  expect(z.object({ words: list }).safeParse({ words: ['a', 1] }).error?.issues).toMatchObject([
    { code: 'invalid_type', path: ['words', 1] },
  ]);
  expect(z.toJSONSchema(list.min(1), { io: 'input' })).toMatchObject({
    type: 'array',
    items: { type: 'string' },
    minItems: 1,
    maxItems: 3,
  });
});

test('a list that is too long is not read at all', () => {
  const { item, read } = counted();
  const { error } = listOf(item, 1_000).min(1).nullish().safeParse(Array(1_001).fill('x'));
  expect(error?.issues).toMatchObject([{ code: 'too_big', maximum: 1_000, path: [] }]);
  expect(read()).toBe(0);
});

test('a list is read until it has enough issues', () => {
  const { item, read } = counted();
  const list = listOf(item, 1_000_000);
  const { error } = list.safeParse([...Array(500).fill(1), ...Array(999_000).fill('x')]);
  expect(error?.issues).toHaveLength(ISSUES_MAX);
  expect(error?.issues[0]?.path).toEqual([500]);
  expect(read()).toBe(500 + ISSUES_MAX);
});

test('lists in lists have no more issues than a few lists', () => {
  const { item, read } = counted();
  const lists = listOf(z.object({ inner: listOf(item, 1_000_000) }), 1_000_000);
  const bad = { inner: Array(1_000).fill('x') };
  const { error } = lists.safeParse(Array(1_000).fill(bad));
  expect(error?.issues).toHaveLength(ISSUES_MAX);
  expect(error?.issues[0]?.path).toEqual([0, 'inner', 0]);
  expect(read()).toBe(ISSUES_MAX);
});

test('an item that takes time is a mistake of the schema', () => {
  const list = listOf(
    z.string().refine(async () => true),
    2,
  );
  expect(() => list.safeParse(['a'])).toThrow(z.core.$ZodAsyncError);
});

test('an object with too many entries is not read at all', () => {
  const { item, read } = counted();
  const record = recordOf(item, 2);
  expect(record.parse({ a: 1, b: 2 })).toEqual({ a: 1, b: 2 });
  expect(read()).toBe(2);
  const { error } = z.object({ map: record.nullish() }).safeParse({ map: { a: 'x', b: 'x', c: 'x' } });
  expect(error?.issues).toMatchObject([
    { path: ['map'], message: 'Too big: expected an object of <=2 entries' },
  ]);
  expect(read()).toBe(2);
  expect(record.safeParse(null).error?.issues).toMatchObject([{ code: 'invalid_type' }]);
  expect(z.toJSONSchema(z.object({ map: record }), { io: 'input' })).toMatchObject({
    properties: { map: { type: 'object', maxProperties: 2 } },
  });
});
