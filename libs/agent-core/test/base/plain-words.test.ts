import { expect, test } from 'vitest';
import { z } from 'zod';
import { inPlainWords } from '../../src/base/plain-words.ts';

test.each([
  [z.object({}), undefined, 'is missing'],
  [z.record(z.string(), z.unknown()), 'a', 'Invalid input: expected object, received string'],
  [z.coerce.number(), 'many', 'Invalid input: expected number'],
  [z.string(), null, 'Invalid input: expected string, received null'],
  [z.string('must be a name'), undefined, 'must be a name'],
  [z.string().min(2), 'a', 'Too small: expected string to have >=2 characters'],
])('Zod’s messages are told without its jargon (%#)', (schema, value, told) => {
  expect(schema.safeParse(value).error?.issues.map(({ message }) => inPlainWords(message))).toEqual([told]);
});
