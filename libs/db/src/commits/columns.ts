import { sql, type RawBuilder } from 'kysely';

const ARRAYS = {
  uuid: sql`uuid[]`,
  int: sql`int[]`,
  bigint: sql`bigint[]`,
  boolean: sql`boolean[]`,
  word: sql`text[]`,
  text: sql`text[]`,
} as const;

/**
 * A column: its type, and its value in a row. `text` is any that Postgres can store; all other types hold ids, numbers,
 * truth values and words of our own, none of which needs quotes, and never what came from outside.
 */
type Column<Row> =
  | readonly ['text', (row: Row, index: number) => string | null]
  | readonly [
      Exclude<keyof typeof ARRAYS, 'text'>,
      (row: Row, index: number) => string | number | boolean | null,
    ];

/**
 * Rows as a source of a set-based statement, `unnest(…) as d(<names of the columns>)`: Postgres takes them in at half the
 * price of records of JSON, which it parses twice (ADR 0022). Each column is wrapped in a `select`, which hides its length
 * from the planner: one that sees 1,000 keys and knows of a table only that it was small when it was counted scans it
 * instead of looking up.
 */
export function recordsOf<Row>(
  rows: readonly Row[],
  columns: Readonly<Record<string, Column<NoInfer<Row>>>>,
): RawBuilder<unknown> {
  const arrays = Object.values(columns).map(([type, valueOf]) => {
    const elements = rows.map((row, index) => {
      const value = valueOf(row, index);
      return value === null ? 'NULL' : type === 'text' ? quoted(String(value)) : value;
    });
    return sql`(select ${`{${elements.join(',')}}`}::${ARRAYS[type]})`;
  });
  const names = Object.keys(columns).map((name) => sql.id(name));
  return sql`unnest(${sql.join(arrays)}) as d(${sql.join(names)})`;
}

const NEEDS_ESCAPE = /["\\]/;

function quoted(text: string): string {
  return `"${NEEDS_ESCAPE.test(text) ? text.replace(/["\\]/g, '\\$&') : text}"`;
}

/** Long texts end to end, and where each one lies: `convert_from(substr(bytes, start, length), 'UTF8')`. */
export interface TextSlices {
  readonly bytes: Buffer;
  /** Place, from 1; null for null. */
  startOf(index: number): number | null;
  /** In bytes; null for null. */
  lengthOf(index: number): number | null;
}

/** Long texts without quotes, escapes or a second parse. */
export function textSlices(values: readonly (string | null)[]): TextSlices {
  const lengths = values.map((value) => (value === null ? null : Buffer.byteLength(value)));
  const starts: (number | null)[] = [];
  let end = 1;
  for (const length of lengths) {
    starts.push(length === null ? null : end);
    end += length ?? 0;
  }
  const bytes = Buffer.allocUnsafe(end - 1);
  let at = 0;
  for (const value of values) if (value !== null) at += bytes.write(value, at);
  return {
    bytes,
    startOf: (index) => starts[index] ?? null,
    lengthOf: (index) => lengths[index] ?? null,
  };
}
