/** What makes rows due: asked by whoever takes them, and by the look that finds out whether there are any. */
import { sql, type RawBuilder } from 'kysely';

/** Of a leased row: it is due, and nobody holds it. */
export const IS_DUE = sql`next_due_at <= app_now() and lease_until < app_now()`;

/** Of a run: its deadline has passed. Index: run_by_deadline. */
const IS_LATE = sql`overdue_from <= (select app_now())`;
const WAITS = sql`state in ('queued', 'ready', 'requires_action')`;

/** Of a run: it waits past its deadline. */
export const IS_OVERDUE = sql`${IS_LATE} and ${WAITS}`;

/** One of the first `lookedAt` runs past their deadline waits; null: one of all. */
export function isAnyOverdue(lookedAt: number | null): RawBuilder<boolean> {
  return sql`exists (select from (select state from run where ${IS_LATE} order by overdue_from limit ${lookedAt}::bigint) late
                      where ${WAITS})`;
}

/** Of a batch, `b`: how many of its runs have not ended. */
export const OPEN_RUNS: RawBuilder<number> = sql`
  (b.total - (select coalesce(sum(completed + failed + cancelled + expired), 0)::int
                from batch_tally where batch_id = b.id))`;

/** Of a batch, `b`: it has no open run left, and nobody was told. Index: batch_not_due. */
export const IS_IDLE = sql`b.state in ('running', 'paused', 'cancelling') and b.next_due_at is null and ${OPEN_RUNS} <= 0`;

/** The budgets, `g`, in which something was given back that runs may wait for, with their batches, `b`. */
export const FREED_BUDGETS = sql`
      from batch_budget g join batch b on b.id = g.batch_id
     where g.room = 'freed' and b.state = 'running'`;

/** Of an idempotency key: it is older than `days`. Index: idempotency_key_by_age. */
export function isOldKey(days: number): RawBuilder<boolean> {
  return sql`created_at < (select app_now()) - ${days} * interval '1 day'`;
}

/** An audit has at most this part of the time: it reads all that is kept, and what is kept grows. */
const AUDIT_SHARE = 20;
/** One that has not ended is waited for so many times as long as the last one took. Its worker has ended by then. */
const AUDIT_PATIENCE = 3;

/**
 * No audit began less than `intervalMs` ago, nor less than twenty times what the last one took, or three times if it has not
 * ended; a day at most, as a clock that was set makes one seem long. Index: audit_report_by_age.
 */
export function isAuditDue(intervalMs: number): RawBuilder<boolean> {
  return sql`not exists (
    select 1 from audit_report r
     where r.started_at > app_now() - greatest(
             ${intervalMs}::float8 * interval '1 millisecond',
             (select least((l.finished_at - l.started_at)
                             * case when r.finished_at is null then ${AUDIT_PATIENCE}::int else ${AUDIT_SHARE}::int end,
                           interval '1 day')
                from audit_report l where l.finished_at is not null order by l.started_at desc limit 1)))`;
}
