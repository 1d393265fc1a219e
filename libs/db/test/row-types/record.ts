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

/** By the text of the statement. Null: libs/db/src did not run it, or it has no single result. */
const recorded = new Map<string, RecordedStatement | null>();
/** Errors whose stacks are formatted only for a new statement: source maps make that slow. */
const callers = new AsyncLocalStorage<Error>();

const raw = Object.getPrototypeOf(sql`select`) as RawBuilder<unknown>;
const { execute } = raw;
raw.execute = function (this: RawBuilder<unknown>, ...args) {
  return callers.run(new Error(), () => execute.apply(this, args));
};

type Query = (...args: unknown[]) => unknown;
const client = pg.Client.prototype as unknown as { query: Query };
const { query } = client;
client.query = function (this: unknown, ...args) {
  const sent = query.apply(this, args);
  const caller = callers.getStore();
  if (caller !== undefined && sent instanceof Promise)
    void sent.then(
      (result: pg.QueryResult<Record<string, unknown>>) => note(textOf(args[0]), caller, result),
      () => undefined,
    );
  return sent;
};

function textOf(query: unknown): string {
  return typeof query === 'string' ? query : (query as pg.QueryConfig).text;
}

function note(text: string, caller: Error, { fields, rows }: pg.QueryResult<Record<string, unknown>>): void {
  let statement = recorded.get(text);
  if (statement === undefined) recorded.set(text, (statement = describe(caller, fields)));
  for (const [name, column] of Object.entries(statement?.columns ?? {}))
    column.has_null ||= rows.some((row) => row[name] === null);
}

function describe(caller: Error, fields: readonly pg.FieldDef[]): RecordedStatement | null {
  const frames = [...(caller.stack ?? '').matchAll(/\/(libs\/db\/src\/[^:()]+\.ts):(\d+)/g)].map(
    ([, file, line]) => `${file}:${line}`,
  );
  // A simple query of several statements, such as a migration, has no single result.
  if (frames.length === 0 || !Array.isArray(fields)) return null;
  const columns = fields.map(({ name, dataTypeID }) => [name, { type_id: dataTypeID, has_null: false }]);
  return { frames, columns: Object.fromEntries(columns) as RecordedStatement['columns'] };
}

/** Writes the statements of the present test file at its end. A process may serve several files. */
export function recordStatements(): void {
  recorded.clear();
  afterAll(() => {
    const directory = process.env['NIGHTSHIFT_STATEMENTS'] ?? '';
    mkdirSync(directory, { recursive: true });
    const record: StatementRecord = {
      test_file: expect.getState().testPath ?? '',
      statements: [...recorded.values()].filter((statement) => statement !== null),
    };
    writeFileSync(join(directory, `${randomUUID()}.json`), JSON.stringify(record));
  });
}
