import { sql, type RawBuilder } from 'kysely';

/*
 * Parts of statements, each explained once.
 */

/**
 * Ends a subquery that is run as it stands, by its keys. The planner merges other subqueries into the statement around them, and
 * may then scan a whole table, above all before the server has counted its rows (ADR 0024).
 */
export const UNMERGED = sql`offset 0`;

/**
 * Begins a CTE that ends before anything is written: rows are locked in its order, or read before the statement changes them.
 * Postgres runs other CTEs that are used once as a part of the statement.
 */
export const AS_FIRST = sql`as materialized`;

/**
 * The place of a row version in its table: an update finds a row by it that the same statement has looked up by key, without a
 * join. It holds until the row is changed again.
 */
export const PLACE = sql`ctid`;

/** The database's time, the only clock that rows are judged by. */
export const NOW = sql<Date>`app_now()`;

/** For `=`: any of these ids. One parameter, so that a statement's text does not depend on their number. */
export function anyUuid(ids: readonly string[]): RawBuilder<string> {
  return sql`any(${[...ids]}::uuid[])`;
}

/** As {@link anyUuid}, for texts. */
export function anyText(texts: readonly string[]): RawBuilder<string> {
  return sql`any(${[...texts]}::text[])`;
}
