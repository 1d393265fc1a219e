import { toStorable, toStorableText } from '@nightshift/agent-core';

/** Rows of one `json_to_recordset` parameter at most. */
export const ROWS_PER_STATEMENT = 5_000;
/** Characters of one parameter that end a chunk early; a single larger row is a chunk of its own. */
const CHARS_PER_STATEMENT = 8_000_000;

/** One parameter for `json_to_recordset`, and how many rows it holds. */
export interface RowChunk {
  readonly json: string;
  readonly count: number;
}

/** The rows in order as JSON parameters, cut so that no statement grows without bound. */
export function* jsonRowChunks(rows: Iterable<object>): Generator<RowChunk> {
  let chunk: string[] = [];
  let chars = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    if (
      chunk.length === ROWS_PER_STATEMENT ||
      (chunk.length > 0 && chars + text.length > CHARS_PER_STATEMENT)
    ) {
      yield { json: `[${chunk.join(',')}]`, count: chunk.length };
      chunk = [];
      chars = 0;
    }
    chunk.push(text);
    chars += text.length;
  }
  if (chunk.length > 0) yield { json: `[${chunk.join(',')}]`, count: chunk.length };
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
