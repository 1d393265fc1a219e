import { sql, type RawBuilder, type SqlBool } from 'kysely';

/** Matches `column` if it contains `part`, case-insensitive; `%`, `_` and `\` are literal. */
export function containsText(column: string, part: string): RawBuilder<SqlBool> {
  return sql`${sql.ref(column)} ilike ${`%${part.replaceAll(/[\\%_]/g, '\\$&')}%`}`;
}
