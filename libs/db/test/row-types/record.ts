import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sql, type RawBuilder } from 'kysely';
import pg from 'pg';
import { afterAll, expect } from 'vitest';

/** The columns sent by the server for a statement of the source. */
export interface RecordedStatement {
  /** `<path>:<line>` of libs/db/src on the call stack, innermost first. */
  readonly frames: readonly string[];
  readonly columns: Record<string, RecordedColumn>;
}

export interface RecordedColumn {
  readonly type_id: number;
  /** A row had a null. */
  has_null: boolean;
}

/** A file of records, with the statements of a test file. */
export interface StatementRecord {
  readonly test_file: string;
  readonly statements: readonly RecordedStatement[];
}

const recorded = new Map<string, RecordedStatement>();
const stacks = new AsyncLocalStorage<string>();

const raw = Object.getPrototypeOf(sql`select`) as RawBuilder<unknown>;
const { execute } = raw;
raw.execute = function (this: RawBuilder<unknown>, ...args) {
  return stacks.run(new Error().stack ?? '', () => execute.apply(this, args));
};

type Query = (...args: unknown[]) => unknown;
const client = pg.Client.prototype as unknown as { query: Query };
const { query } = client;
client.query = function (this: unknown, ...args) {
  const sent = query.apply(this, args);
  const stack = stacks.getStore();
  if (stack !== undefined && sent instanceof Promise)
    void sent.then(
      (result: pg.QueryResult<Record<string, unknown>>) => note(stack, result),
      () => undefined,
    );
  return sent;
};

function note(stack: string, { fields, rows }: pg.QueryResult<Record<string, unknown>>): void {
  // A simple query of several statements, such as a migration, has no single result.
  if (!Array.isArray(fields)) return;
  const frames = [...stack.matchAll(/\/(libs\/db\/src\/[^:()]+\.ts):(\d+)/g)].map(
    ([, file, line]) => `${file}:${line}`,
  );
  if (frames.length === 0) return;
  const names = fields.map((field) => field.name);
  const key = JSON.stringify([frames, names]);
  let statement = recorded.get(key);
  if (statement === undefined) {
    const columns = fields.map(({ name, dataTypeID }) => [name, { type_id: dataTypeID, has_null: false }]);
    statement = { frames, columns: Object.fromEntries(columns) as RecordedStatement['columns'] };
    recorded.set(key, statement);
  }
  for (const [name, column] of Object.entries(statement.columns))
    column.has_null ||= rows.some((row) => row[name] === null);
}

afterAll(() => {
  const directory = process.env['NIGHTSHIFT_STATEMENTS'] ?? '';
  mkdirSync(directory, { recursive: true });
  const record: StatementRecord = {
    test_file: expect.getState().testPath ?? '',
    statements: [...recorded.values()],
  };
  writeFileSync(join(directory, `${randomUUID()}.json`), JSON.stringify(record));
});
