import { sql, type RawBuilder } from 'kysely';

/** `column` contains `part`, whatever the case; `%`, `_` and `\` in it stand for themselves. */
export function containsText(column: string, part: string): RawBuilder<unknown> {
  return sql`${sql.ref(column)} ilike ${`%${part.replaceAll(/[\\%_]/g, '\\$&')}%`}`;
}
