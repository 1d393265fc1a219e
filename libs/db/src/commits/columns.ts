import { sql, type RawBuilder } from 'kysely';

/*
 * Columns of a set-based statement, as arguments of `unnest`. Postgres takes such rows in at half the price of records of
 * JSON, which it parses twice (ADR 0022). Each is wrapped in a `select`, which hides its length from the planner: one
 * that sees 1,000 keys and knows of a table only that it was small when it was counted scans it instead of looking up.
 */

type Plain = string | number | boolean | null;

const ARRAYS = {
  uuid: sql`uuid[]`,
  int: sql`int[]`,
  bigint: sql`bigint[]`,
  boolean: sql`boolean[]`,
  text: sql`text[]`,
} as const;

/** Ids, numbers, truth values and words of our own, none of which needs quotes. Never what came from outside. */
export function plainColumn(type: keyof typeof ARRAYS, values: readonly Plain[]): RawBuilder<unknown> {
  let literal = '';
  for (const value of values) literal += literal === '' ? String(value ?? 'NULL') : `,${value ?? 'NULL'}`;
  return sql`(select ${`{${literal}}`}::${ARRAYS[type]})`;
}

const NEEDS_ESCAPE = /["\\]/;

/** Any text that Postgres can store. */
export function textColumn(values: readonly (string | null)[]): RawBuilder<unknown> {
  let literal = '';
  for (const value of values) {
    if (literal !== '') literal += ',';
    if (value === null) literal += 'NULL';
    else literal += `"${NEEDS_ESCAPE.test(value) ? value.replace(/["\\]/g, '\\$&') : value}"`;
  }
  return sql`(select ${`{${literal}}`}::text[])`;
}

/** Long texts end to end, and where each one lies: `convert_from(substr(bytes, start, length), 'UTF8')`. */
export interface TextSlices {
  readonly bytes: Buffer;
  /** Column of places, from 1; null for null. */
  readonly starts: RawBuilder<unknown>;
  readonly lengths: RawBuilder<unknown>;
}

/** Long texts without quotes, escapes or a second parse. */
export function textSlices(values: readonly (string | null)[]): TextSlices {
  const starts: (number | null)[] = [];
  const lengths: (number | null)[] = [];
  let end = 1;
  for (const value of values) {
    const length = value === null ? null : Buffer.byteLength(value);
    starts.push(length === null ? null : end);
    lengths.push(length);
    end += length ?? 0;
  }
  const bytes = Buffer.allocUnsafe(end - 1);
  let at = 0;
  for (const value of values) if (value !== null) at += bytes.write(value, at);
  return { bytes, starts: plainColumn('int', starts), lengths: plainColumn('int', lengths) };
}
