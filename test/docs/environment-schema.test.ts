import { describe, expect, test } from 'vitest';
import { readPrograms } from '../../scripts/docs/configuration-page.ts';
import { readEnvironmentSchema, type Variable } from '../../scripts/docs/environment-schema.ts';

const values: Readonly<Record<string, unknown>> = { 'POLICY.poll_ms': 500 };

function read(members: string, around = { before: '', after: ';' }): readonly Variable[] {
  const source = `import { z } from 'zod';\n${around.before}\nconst schema = z.object({\n${members}\n})${around.after}\n`;
  return readEnvironmentSchema(source, 'config.ts', (path) => values[path.join('.')]);
}

function readOne(member: string, before = ''): Variable {
  const [variable, ...more] = read(member, { before, after: ';' });
  if (variable === undefined || more.length > 0) throw new Error('expected one variable');
  return variable;
}

describe('a variable', () => {
  test.each<[string, Omit<Variable, 'name' | 'effect'>]>([
    ['z.string()', { value: 'text', fallback: null, required: true }],
    ["z.string().min(1).default('info')", { value: 'text', fallback: 'info', required: false }],
    [
      "z.string().min(16, 'too short').optional()",
      { value: 'text of at least 16 characters', fallback: null, required: false },
    ],
    [
      "z\n  .string({ error: 'is required' })\n  .regex(/^a/, 'must begin with a')",
      { value: 'text', fallback: null, required: true },
    ],
    ["z.url().default('http://127.0.0.1')", { value: 'URL', fallback: 'http://127.0.0.1', required: false }],
    ["z.enum(['a', 'b']).default('a')", { value: '`a`, `b`', fallback: 'a', required: false }],
    [
      'z.coerce.number().int().min(0).max(65_535).default(80)',
      { value: 'whole number, at least 0, at most 65,535', fallback: '80', required: false },
    ],
    ['positive.default(1_000)', { value: 'whole number, at least 1', fallback: '1000', required: false }],
    [
      'positive.max(5_000)',
      { value: 'whole number, at least 1, at most 5,000', fallback: null, required: true },
    ],
    [
      'natural.default(POLICY.poll_ms)',
      { value: 'whole number, at least 0', fallback: '500', required: false },
    ],
  ])('of %s', (expression, expected) => {
    const before = [
      'const positive = z.coerce.number().int().positive();',
      'const natural = z.coerce.number().int().nonnegative();',
    ].join('\n');
    expect(readOne(`NAME: ${expression},`, before)).toEqual({ name: 'NAME', effect: '', ...expected });
  });

  test('carries its unit in its name', () => {
    expect(readOne('WAIT_MS: z.coerce.number().min(1),').value).toBe('milliseconds, at least 1');
    expect(readOne('BODY_BYTES_MAX: z.coerce.number().max(64_000_000),').value).toBe(
      'bytes, at most 64,000,000',
    );
  });

  test('is described by the doc comment above it, as one line', () => {
    const [one, two, three] = read(`
      /** Postgres; \`a\`. */
      DATABASE_URL: z.string(),
      /**
       * Milliseconds between
       * two looks.
       */
      LOOK_MS: z.coerce.number(),
      // Not documentation.
      OTHER: z.string(),`);
    expect([one?.effect, two?.effect, three?.effect]).toEqual([
      'Postgres; `a`.',
      'Milliseconds between two looks.',
      '',
    ]);
  });

  test('tells the rule that binds it to another', () => {
    const after = `.superRefine((env, context) => {
      if (env.B < env.A) context.addIssue({ code: 'custom', path: ['B'], message: 'must be at least A' });
    });`;
    const variables = read('A: z.coerce.number(),\nB: z.coerce.number(),', { before: '', after });
    expect(variables.map(({ value }) => value)).toEqual(['whole number', 'whole number; must be at least A']);
  });
});

describe('what cannot be read is an error that names the place', () => {
  test.each([
    ['z.string().brand()', 'config.ts: NAME: .brand() is not known here'],
    ['z.bigint()', "config.ts: NAME: 'z' is not defined in this file"],
    ['somewhere', "config.ts: NAME: 'somewhere' is not defined in this file"],
    ['z.string().default(POLICY.gone)', "config.ts: NAME: cannot tell the value of 'POLICY.gone'"],
    ['z.string().default(make())', "config.ts: NAME: cannot tell the value of 'make()'"],
    ['z.string().default()', 'config.ts: NAME: .default() says nothing'],
    ['z.enum(CHOICES)', 'config.ts: NAME: z.enum() must be given its choices as a list'],
    ['z.enum([a])', 'config.ts: NAME: a choice must be a text'],
    ['make()', "config.ts: NAME: cannot read 'make()'"],
    ['`text`', "config.ts: NAME: cannot read '`text`'"],
  ])('%s', (expression, message) => {
    expect(() => readOne(`NAME: ${expression},`)).toThrow(message);
  });

  test('a member that is no variable', () => {
    expect(() => read('lower: z.string(),')).toThrow(
      "config.ts: 'lower: z.string()' is not a variable in capitals",
    );
    expect(() => read('...more,')).toThrow("config.ts: '...more' is not a variable in capitals");
  });

  test('no schema, or more than one', () => {
    const none = (source: string) => readEnvironmentSchema(source, 'config.ts', () => undefined);
    expect(() => none('export {};')).toThrow('config.ts must hold exactly one z.object({…}), and holds 0.');
    expect(() => none('z.object({}); z.object({});')).toThrow('and holds 2.');
  });
});

test('every program that is deployed is described, with nothing twice', () => {
  const programs = readPrograms();
  expect(programs.map(({ title }) => title)).toEqual(['API', 'Worker']);
  for (const { variables } of programs) {
    const names = variables.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names).toContain('DATABASE_URL');
  }
});
