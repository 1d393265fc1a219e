import { sql, type RawBuilder } from 'kysely';

/**
 * An escaped NUL or surrogate, which `json` cannot parse, or not alone: an odd number of backslashes precedes its `u`. A
 * single expression that finds only lone surrogates takes quadratic time.
 */
const UNREADABLE = String.raw`(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})`;
const REPLACEMENT = String.raw`\1\\ufffd`;

/** The content of a message stored wrapped (ADR 0003), with U+FFFD for unreadable escapes. */
function unwrapped(content: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`regexp_replace(${content} #>> '{}', ${UNREADABLE}, ${REPLACEMENT}, 'gi')::json`;
}

/**
 * The joined text blocks of a message's content, without tool calls, results and thoughts; null without any.
 * Wrapped content has U+FFFD for unreadable escapes.
 */
export function readableText(content: RawBuilder<unknown>): RawBuilder<string | null> {
  return sql`(
    select string_agg(e.value->>'text', E'\n' order by e.place)
      from json_array_elements(case when json_typeof(${content}) = 'array' then ${content} else ${unwrapped(content)} end)
             with ordinality as e(value, place)
     where e.value->>'type' = 'text')`;
}
