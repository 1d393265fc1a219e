import { expect, test } from 'vitest';
import { z } from 'zod';
import { inPlainWords } from '../../src/base/plain-words.ts';

test.each([
  [z.object({}), undefined, 'is missing'],
  [z.record(z.string(), z.unknown()), 'a', 'Invalid input: expected object, received string'],
  [z.coerce.number(), 'many', 'must be a number'],
  [z.number(), '5', 'must be a number of at most 1.8e308, without quotes'],
  [z.int(), '5', 'must be a number of at most 1.8e308, without quotes'],
  [z.number(), Infinity, 'must be a number of at most 1.8e308, without quotes'],
  [z.number(), true, 'must be a number, not boolean'],
  [z.int(), 1.5, 'must be a whole number'],
  [z.string(), null, 'Invalid input: expected string, received null'],
  [z.string('must be a name'), undefined, 'must be a name'],
  [z.string().min(2), 'a', 'Too small: expected string to have >=2 characters'],
])('Zod’s messages are told without its jargon (%#)', (schema, value, told) => {
  expect(schema.safeParse(value).error?.issues.map(({ message }) => inPlainWords(message))).toEqual([told]);
});
