import { sql, type RawBuilder } from 'kysely';

/** Counts the images in a JSON content. */
export function imagesIn(content: RawBuilder<unknown>): RawBuilder<number> {
  return sql`regexp_count(${content}::text, '"image"')`;
}

/** Counts the bytes of inline images in a JSON content; null without any. */
export function imageBytesIn(content: RawBuilder<unknown>): RawBuilder<number | null> {
  return sql`case when ${content}::text ~ '"image/' then octet_length(${content}::text) - octet_length(regexp_replace(
    ${content}::text, '("type":"base64","media_type":"image/[^"]*","data":")[A-Za-z0-9+/=]*', '\\1', 'g')) end`;
}
