import { toStorable, toStorableText } from '@nightshift/agent-core';
import { rowsPerStatement } from './rows-per-statement.ts';

/** One parameter for `json_to_recordset`, and how many rows it holds. */
export interface RowChunk {
  readonly json: string;
  readonly count: number;
}

/** The rows in order as JSON parameters, cut so that no statement grows without bound. */
export function* jsonRowChunks(rows: Iterable<object>): Generator<RowChunk> {
  for (const chunk of rowsPerStatement(jsonTexts(rows), (text) => text.length)) {
    yield { json: `[${chunk.join(',')}]`, count: chunk.length };
  }
}

function* jsonTexts(rows: Iterable<object>): Generator<string> {
  for (const row of rows) yield JSON.stringify(row);
}

/** A text as a `text` column takes it. */
export function storableText(text: string | null): string | null {
  return text === null ? null : toStorableText(text);
}

/** JSON text for a `json` column of settings: strings as a `text` column would take them, so that SQL can read it. */
export function storableJson(value: unknown): string {
  const plain = JSON.stringify(value);
  // What Postgres refuses is always escaped.
  if (!plain.includes('\\u')) return plain;
  const text = JSON.stringify(value, (_key, member: unknown) =>
    typeof member === 'string' ? toStorableText(member) : member,
  );
  // Only a key can still hold what Postgres refuses.
  return toStorable(text) === text ? text : JSON.stringify(withStorableKeys(JSON.parse(text)));
}

function withStorableKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withStorableKeys);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [toStorableText(key), withStorableKeys(member)]),
  );
}
