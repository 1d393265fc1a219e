import { toStorable, toStorableText } from '@nightshift/agent-core';
import { rowsPerStatement } from './rows-per-statement.ts';

/** A parameter for `json_to_recordset`, and its number of rows. */
export interface RowChunk {
  readonly json: string;
  readonly count: number;
}

/** Cuts the rows, in order, into JSON parameters of bounded size. */
export function* jsonRowChunks(rows: Iterable<object>): Generator<RowChunk> {
  for (const chunk of rowsPerStatement(jsonTexts(rows), (text) => text.length)) {
    yield { json: `[${chunk.join(',')}]`, count: chunk.length };
  }
}

function* jsonTexts(rows: Iterable<object>): Generator<string> {
  for (const row of rows) yield JSON.stringify(row);
}

/** Makes a text storable in a `text` column. */
export function storableText(text: string | null): string | null {
  return text === null ? null : toStorableText(text);
}

/** Makes JSON text for a `json` column of settings, with strings storable as `text`, so that SQL can read it. */
export function storableJson(value: unknown): string {
  const plain = JSON.stringify(value);
  // Characters that Postgres refuses are always escaped.
  if (!plain.includes('\\u')) return plain;
  const text = JSON.stringify(value, (_key, member: unknown) =>
    typeof member === 'string' ? toStorableText(member) : member,
  );
  // Only keys can still hold characters that Postgres refuses.
  return toStorable(text) === text ? text : JSON.stringify(withStorableKeys(JSON.parse(text)));
}

function withStorableKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withStorableKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [toStorableText(key), withStorableKeys(member)]),
  );
}
