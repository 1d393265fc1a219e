import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

/*
 * Compares the hand-written types of queries with the migrated tables.
 */

interface Column {
  readonly name: string;
  readonly nullable: boolean;
  /** May be omitted in an insert. */
  readonly optional: boolean;
}

const source = readFileSync(new URL('../../src/tables.ts', import.meta.url), 'utf8');

const declared = readDeclaredTables(source);
let database: TestDatabase;
const migrated = new Map<string, readonly Column[]>();

beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  const { rows } = await database.pool.query<{ table_name: string } & Column>(
    `select table_name, column_name as name, is_nullable = 'YES' as nullable,
            column_default is not null or is_nullable = 'YES' as optional
       from information_schema.columns
      where table_schema = 'public' and table_name not like 'kysely\\_%' order by table_name, ordinal_position`,
  );
  for (const [table, columns] of Map.groupBy(rows, (row) => row.table_name)) {
    migrated.set(
      table,
      columns.map(({ name, nullable, optional }) => ({ name, nullable, optional })),
    );
  }
});
afterAll(() => database.close());

test('the DB interface names exactly the migrated tables', () => {
  expect([...declared.keys()].sort()).toEqual([...migrated.keys()].sort());
});

describe('the interface of each table has its columns, nullable and optional as migrated', () => {
  test.each([...declared.keys()])('%s', (table) => {
    expect(declared.get(table)).toEqual([...(migrated.get(table) ?? [])].sort(byName));
  });
});

function byName(left: Column, right: Column): number {
  return left.name < right.name ? -1 : 1;
}

/** Reads the columns of each table's interface by name, inherited columns included. */
function readDeclaredTables(text: string): ReadonlyMap<string, readonly Column[]> {
  const interfaces = new Map<
    string,
    { readonly parent: string | undefined; readonly fields: readonly [string, string][] }
  >();
  for (const [, name = '', parent, body = ''] of text.matchAll(
    /export interface (\w+)(?: extends (\w+))? \{\n([^}]*)\}/g,
  )) {
    const fields = [...body.matchAll(/^ {2}(\w+): (.*);$/gm)].map(
      ([, field = '', type = '']): [string, string] => [field, type],
    );
    interfaces.set(name, { parent, fields });
  }
  const columnsOf = (name: string): readonly Column[] => {
    const found = interfaces.get(name);
    if (found === undefined) throw new Error(`tables.ts has no interface ${name}.`);
    const own = found.fields.map(([field, type]) => toColumn(field, type));
    return found.parent === undefined ? own : [...columnsOf(found.parent), ...own];
  };
  const tables = interfaces.get('DB')?.fields ?? [];
  return new Map(tables.map(([table, type]) => [table, [...columnsOf(type)].sort(byName)]));
}

function toColumn(name: string, type: string): Column {
  const nullable = type.endsWith(' | null');
  const defaulted = /^(Generated|JsonDefaulted)<|^Stamped$|^ColumnType<[^,]*, [^,]*undefined/.test(type);
  return { name, nullable, optional: nullable || defaulted };
}
