import { sql, type RawBuilder, type SqlBool } from 'kysely';

/** `column` contains `part`, whatever the case; `%`, `_` and `\` in it stand for themselves. */
export function containsText(column: string, part: string): RawBuilder<SqlBool> {
  return sql`${sql.ref(column)} ilike ${`%${part.replaceAll(/[\\%_]/g, '\\$&')}%`}`;
}
