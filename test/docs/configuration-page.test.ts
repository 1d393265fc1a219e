import { z } from 'zod';
import { describe, expect, test } from 'vitest';
import { readPrograms, variablesOf, type Variable } from '../../scripts/docs/configuration-page.ts';

const positive = z.coerce.number().int().positive();

describe('the row of a variable', () => {
  test.each<[string, z.ZodType, Partial<Variable>]>([
    ['a text', z.string(), { value: 'text', fallback: 'required' }],
    ['a default', z.string().min(1).default('info'), { value: 'text', fallback: '`info`' }],
    ['an empty default', z.string().default(''), { fallback: 'empty' }],
    [
      'an optional text',
      z.string().min(16).optional(),
      { value: 'text of at least 16 characters', fallback: 'none' },
    ],
    ['a pattern', z.string({ error: 'is required' }).regex(/^a/), { value: 'text', fallback: 'required' }],
    ['a URL', z.url().default('http://127.0.0.1'), { value: 'URL', fallback: '`http://127.0.0.1`' }],
    ['choices', z.enum(['a', 'b']).default('a'), { value: '`a`, `b`', fallback: '`a`' }],
    [
      'two bounds',
      z.coerce.number().int().min(0).max(65_535).default(80),
      { value: 'whole number, at least 0, at most 65,535', fallback: '`80`' },
    ],
    ['a positive number', positive.default(1_000), { value: 'whole number, at least 1', fallback: '`1000`' }],
    [
      'a later lower bound',
      positive.min(32).max(5_000),
      { value: 'whole number, at least 32, at most 5,000' },
    ],
    ['no bound', z.coerce.number().int(), { value: 'whole number' }],
    ['a description', positive.default(2).describe('Postgres; `a`.'), { effect: 'Postgres; `a`.' }],
    ['no description', positive, { effect: '' }],
    [
      'a rule about another variable',
      positive.meta({ description: 'It waits.', rule: 'must be at least A' }),
      { effect: 'It waits.', value: 'whole number, at least 1; must be at least A' },
    ],
  ])('shows %s', (_, schema, row) => {
    expect(variablesOf(z.object({ NAME: schema }))).toEqual([
      expect.objectContaining({ name: 'NAME', ...row }),
    ]);
  });

  test('takes the unit from the name', () => {
    const rows = variablesOf(z.object({ WAIT_MS: positive, BODY_BYTES_MAX: positive.max(64_000_000) }));
    expect(rows.map(({ value }) => value)).toEqual([
      'milliseconds, at least 1',
      'bytes, at least 1, at most 64,000,000',
    ]);
  });

  test('is refused if the page has no words for the schema', () => {
    expect(() => variablesOf(z.object({ NAME: z.boolean() }))).toThrow(
      'NAME: the page of variables has no words',
    );
  });
});

test('every deployed program is on the page, each variable once and with a description', () => {
  const programs = readPrograms();
  expect(programs.map(({ title }) => title)).toEqual(['API', 'Worker']);
  for (const { variables } of programs) {
    const names = variables.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names).toContain('DATABASE_URL');
    expect(variables.filter(({ effect }) => effect === '')).toEqual([]);
  }
});
