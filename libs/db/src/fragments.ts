import { sql, type RawBuilder, type SqlBool } from 'kysely';
import { uuidArray } from './uuid-array.ts';

/*
 * Common parts of statements.
 */

/**
 * Ends a subquery that must run by its keys. The planner merges other subqueries into the outer statement and may scan a
 * whole table, above all before the first statistics (ADR 0024).
 */
export const UNMERGED = sql`offset 0`;

/**
 * Begins a CTE that completes before any write: it locks rows in its order, or reads them before the statement changes
 * them.
 * Postgres inlines other CTEs that are used once.
 */
export const AS_FIRST = sql`as materialized`;

/**
 * The position of a row version: an update finds a row by it without a join after a look-up by key in the same statement.
 * It holds until the row changes.
 */
export const PLACE = sql`ctid`;

/**
 * Assignments for a run whose sealed step is deleted unsent: if its prompt began with that step, the next step begins it.
 */
export const WITHOUT_UNSENT_PROMPT = sql`
  prompt_number = case when (r.prompt_number, r.prompt_attempt) is distinct from (r.step_number, r.attempt) then r.prompt_number end,
  prompt_attempt = case when (r.prompt_number, r.prompt_attempt) is distinct from (r.step_number, r.attempt) then r.prompt_attempt end`;

/** Assignments for a run that ends while its step is tried again. */
export const WITHOUT_FAILURE = sql`failing_since = null, last_error = null, next_attempt_at = null`;

/** For a run `r`: its batch is not forgotten. */
export const IS_KEPT = isKept('r');

/** For a row of a batch: the batch is not forgotten. Index: `forgotten_batch_due`, read once a statement. */
export function isKept(alias: string): RawBuilder<SqlBool> {
  return sql<SqlBool>`${sql.ref(`${alias}.batch_id`)} not in (select id from forgotten_batch where next_due_at is not null)`;
}

/** The database's time, the only clock for decisions about rows. */
export const NOW = sql<Date>`app_now()`;

/** The right side of `=` for any of these ids, as one parameter, so that the statement's text is constant. */
export function anyUuid(ids: readonly string[]): RawBuilder<string> {
  return sql`any(${uuidArray(ids)}::uuid[])`;
}

/** Like {@link anyUuid}, for texts. */
export function anyText(texts: readonly string[]): RawBuilder<string> {
  return sql`any(${[...texts]}::text[])`;
}

/** Whether the answer of step `s` had a limit below its tokens under a cap. */
export const IS_ANSWER_LIMITED = sql`(not s.is_summary and s.answer_limit < coalesce(s.max_tokens_fitted, s.max_tokens))`;
