import { stripTypeScriptTypes } from 'node:module';
import { describe, expect, test } from 'vitest';
import { checkSource, SOURCE_BYTES_MAX, type UploadedSource } from '../../src/index.ts';

const SCHEMA = { name: 'add', parameters: { type: 'object', properties: { a: {}, b: {} } } };

function check(source: string, more: Partial<UploadedSource> = {}): ReturnType<typeof checkSource> {
  return checkSource({ name: 'add', source, source_type: 'javascript', json_schema: SCHEMA, ...more });
}

describe('a source with the function is accepted', () => {
  test.each([
    'export function add(a, b) { return a + b }',
    'export async function add(a, b) { return a + b }',
    'export const add = (a, b) => a + b;',
    'export default function (a, b) { return a + b }',
    'function sum(a, b) { return a + b }\nexport { sum as add };',
    'const limit = await Promise.resolve(3);\nexport function add() { return limit }',
  ])('%s', async (source) => {
    expect(await check(source)).toEqual({ code: source, parameters: ['a', 'b'] });
  });

  test('a plain function of the name becomes an export', async () => {
    const source = 'function add(a, b) { return a + b } // the end';
    expect((await check(source)).code).toBe(`${source}\nexport { add };\n`);
  });

  test('types are removed, and lines and columns stay', async () => {
    const source = 'interface Pair { a: number }\nexport function add(a: number): number { return a }';
    const { code } = await check(source, { source_type: 'typescript' });
    expect(code).toHaveLength(source.length);
    expect(code.split('\n')[1]).toMatch(/^export function add\(a {8}\) {8} \{ return a \}$/);
  });
});

describe('a source is refused', () => {
  test.each([
    ['without the function', 'export function sub() {}', "there is no function add: write 'export function"],
    ['with a syntax error', 'let a = 1;\nlet b = ;', 'line 2, column 9: Unexpected token'],
    [
      'with an import',
      '\nimport fs from "node:fs";\nexport function add() {}',
      'line 2, column 1: a tool cannot',
    ],
    ['with an export from elsewhere', 'export { add } from "./add.js";', 'a tool cannot import modules'],
    ['as TypeScript', 'export function add(a: number) {}', 'line 1, column 22: Unexpected token'],
    ['when too long', '/'.repeat(SOURCE_BYTES_MAX + 1), `has ${SOURCE_BYTES_MAX + 1} bytes; at most`],
    ['when nested deeply', '['.repeat(200_000), 'Not enough stack space to parse'],
  ])('%s', async (_, source, message) => {
    await expect(check(source)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(message),
      fields: [{ path: '/source_code', message: expect.stringContaining(message) }],
    });
  });

  test.each([
    ['let a: number = 1;\nlet b: = 2;', 'line 2, column 8: Unexpected token `=`'],
    ['\n\nenum Color { Red }', 'line 3, column 1: TypeScript enum is not supported'],
    ['('.repeat(100_000), 'is nested too deeply or too complex'],
    ['type A = ' + 'Array<'.repeat(40_000), 'is nested too deeply or too complex'],
  ])('as TypeScript: %s', async (source, message) => {
    await expect(check(source, { source_type: 'typescript' })).rejects.toThrow(message);
  });

  test.each([[{}], [{ parameters: 'object' }], [{ parameters: { type: 'array' } }]])(
    'with the schema %j',
    async (json_schema) => {
      await expect(check('export function add() {}', { json_schema })).rejects.toMatchObject({
        fields: [{ path: '/json_schema/parameters' }],
      });
    },
  );
});

test('arguments are ordered as in Letta: required ones first, then the schema', async () => {
  const parameters = { type: 'object', properties: { c: {}, b: {}, a: {} }, required: ['a', 'gone'] };
  const { parameters: names } = await check('export function add() {}', { json_schema: { parameters } });
  expect(names).toEqual(['a', 'c', 'b']);
});

test('a source that breaks the type stripper breaks it for no other source', async () => {
  await expect(check('('.repeat(100_000), { source_type: 'typescript' })).rejects.toThrow('too deeply');
  await expect(
    check('export const add = (a: number) => a', { source_type: 'typescript' }),
  ).resolves.toBeDefined();
  expect(stripTypeScriptTypes('let a: number')).toBe('let a        ');
});

test('a source that takes the parser quadratic time blocks nothing, and ends', async () => {
  let source = 'export function add() {}\nlet _';
  for (let at = 0; source.length < SOURCE_BYTES_MAX - 8; at += 1) source += `,_${at.toString(36)}`;
  let ticks = 0;
  const ticking = setInterval(() => {
    ticks += 1;
  }, 10);
  const ended = await Promise.allSettled([check(source)]);
  clearInterval(ticking);
  expect(ticks).toBeGreaterThan(10);
  if (ended[0].status === 'rejected') expect(String(ended[0].reason)).toContain('too complex');
});

test('nothing of a source is evaluated', async () => {
  const source = 'export function add() {}\nglobalThis.evaluated = true; process.exit(7);';
  await check(source);
  expect(globalThis).not.toHaveProperty('evaluated');
});
