/** Conditions of due rows, shared by the claims and the look for due work. */
import { sql, type RawBuilder } from 'kysely';
import { PLACE, UNMERGED } from '../fragments.ts';

/** For a leased row: it is due and has no holder. */
export const IS_DUE = sql`next_due_at <= app_now() and lease_until < app_now()`;

/** For a run: its deadline has passed. Index: `run_by_deadline`. */
const IS_LATE = sql`overdue_from <= (select app_now())`;
const WAITS = sql`state in ('queued', 'ready', 'requires_action')`;

/** For a run: it waits past its deadline. */
export const IS_OVERDUE = sql`${IS_LATE} and ${WAITS}`;

/** True when one of the first `lookedAt` runs past their deadline waits; null examines all. */
export function isAnyOverdue(lookedAt: number | null): RawBuilder<boolean> {
  return sql`exists (select from (select state from run where ${IS_LATE} order by overdue_from limit ${lookedAt}::bigint) late
                      where ${WAITS})`;
}

/** For a batch `b`: the number of its runs that have not ended. */
export const OPEN_RUNS: RawBuilder<number> = sql`
  (b.total - (select coalesce(sum(completed + failed + cancelled + expired), 0)::int
                from batch_tally where batch_id = b.id))`;

/**
 * For a batch `b`: it waits for its pilot, whose runs have all ended. It stops at the first open run.
 * Index: the unique (batch, ordinal).
 */
export const PILOT_IS_OVER: RawBuilder<boolean> = sql`
  (b.pilot_state is not distinct from 'running' and b.pilot_ordinals is not null and not exists (
     select from unnest(b.pilot_ordinals) as p(ordinal)
      cross join lateral (select ended_at from run where batch_id = b.id and ordinal = p.ordinal ${UNMERGED}) r
      where r.ended_at is null))`;

/** For a batch `b`: its failures have reached its `stop_when`, and it is not being cancelled; see `decideStop`. */
export const IS_STOPPED: RawBuilder<boolean> = sql`
  (b.stop_when is not null and b.state in ('running', 'paused') and (
     select t.failed >= (b.stop_when ->> 'first')::int
            or (t.ended >= greatest(1, (b.stop_when ->> 'after')::int) and t.failed >= (b.stop_when ->> 'failure_rate')::float8 * t.ended)
       from (select coalesce(sum(failed + expired), 0) as failed, coalesce(sum(completed + failed + expired), 0) as ended
               from batch_tally where batch_id = b.id) t) is true)`;

/** For a batch `b`: it has no open run, its pilot none, or too many failures, and it is not due. Index: `batch_not_due`. */
export const IS_IDLE = sql`b.state in ('running', 'paused', 'cancelling') and b.next_due_at is null
  and (${OPEN_RUNS} <= 0 or ${PILOT_IS_OVER} or ${IS_STOPPED})`;

/** Budgets `g` with a release that runs may wait for, with their batches `b`. */
export const FREED_BUDGETS = sql`
      from batch_budget g join batch b on b.id = g.batch_id
     where g.room = 'freed' and b.state = 'running'`;

/** For an idempotency key: it is older than `days`. Index: `idempotency_key_by_age`. */
export function isOldKey(days: number): RawBuilder<boolean> {
  return sql`created_at < (select app_now()) - ${days} * interval '1 day'`;
}

/** For a deleted item: it was deleted more than `days` ago. Index: `deleted_item_by_age`. */
export function isOldDeletedItem(days: number): RawBuilder<boolean> {
  return sql`deleted_at < (select app_now()) - ${days} * interval '1 day'`;
}

/**
 * Selects the places of up to `limit` events that are older than `days`, and of up to `limit` events of transactions that this
 * server has not begun. Each part reads the end of an index, because the planner does not know how many match.
 * Index: `event_by_age`, primary key.
 */
export function oldEvents(days: number, limit: number): RawBuilder<unknown> {
  return sql`
    (select ${PLACE} from event where created_at < (select app_now()) - ${days} * interval '1 day' order by created_at limit ${limit})
    union all
    (select ${PLACE} from event where xid >= (select pg_snapshot_xmax(pg_current_snapshot())) order by xid, id limit ${limit})`;
}

/** For an upload: it began more than `hours` ago. Index: `upload_by_age`. */
export function isOldUpload(hours: number): RawBuilder<boolean> {
  return sql`started_at < (select app_now()) - ${hours}::int * interval '1 hour'`;
}

/** For a trial of a tool: a worker may take it. Index: `tool_trial_waiting`. */
export const IS_TRIAL_DUE = sql`state = 'waiting' and waits_until > app_now()`;

/** For a trial of a tool: it is older than `hours`. Index: `tool_trial_by_age`. */
export function isOldTrial(hours: number): RawBuilder<boolean> {
  return sql`created_at < (select app_now()) - ${hours}::int * interval '1 hour'`;
}

/** Minimum ratio of an audit's interval to its duration, because stored data grows and an audit reads all of it. */
const AUDIT_SHARE = 20;
/** Wait for an unfinished audit, as a multiple of the last duration; its worker has crashed by then. */
const AUDIT_PATIENCE = 3;

/**
 * True when the last audit began at least `intervalMs` ago, and at least twenty times its duration, or three times the last
 * duration if it is unfinished. The wait is at most a day, because a clock change can inflate a duration.
 * Index: `audit_report_by_age`.
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

/**
 * For a batch `b`: changes of its memory, or passages, are held for review.
 * Index: primary key of `held_change`, `passage_by_batch`.
 */
export const IS_UNSETTLED: RawBuilder<boolean> = sql`(
  exists (select from held_change h where h.batch_id = b.id and h.state = 'held')
  or exists (select from passage p where p.batch_id = b.id and p.held_by_batch_id is not null))`;

/**
 * For an ended batch `b`: retention may forget it. Left out: batches with a callback to deliver, an open review, a retry that
 * is being received, and retries of a batch that is not forgotten.
 * Index: `batch_by_retry`, primary key, `callback_event_due`, read once a statement.
 */
export const IS_FREE: RawBuilder<boolean> = sql`(b.next_due_at is null and not ${IS_UNSETTLED}
    and not exists (select from batch r where r.retry_of = b.id and r.state = 'receiving')
    and not exists (select from batch o where o.id = b.retry_of)
    and b.id not in (select e.batch_id from callback_event c
                     cross join lateral (select batch_id from event where xid = c.xid and id = c.id ${UNMERGED}) e
                     where c.next_due_at is not null and e.batch_id is not null))`;

/**
 * Selects the ids of up to `limit` batches whose time is over, by the database's clock: `retentionDays` after their end, or
 * at the time of their own, if they are {@link IS_FREE}.
 * `lookedAt`: only the oldest so many of each kind are examined; null: all.
 * Index: `batch_by_retention`, `batch_expiring`, `callback_event_due`, read once a statement.
 */
export function isExpired(
  retentionDays: number | null,
  limit: number,
  lookedAt: number | null = null,
): RawBuilder<unknown> {
  return sql`
    (select b.id from (select * from batch where expires_at <= (select app_now()) order by expires_at limit ${lookedAt}::bigint) b
      where ${IS_FREE} order by b.expires_at limit ${limit})
    union all
    (select b.id from (values ('auto'), ('review')) a(apply)
      cross join lateral (
        select * from batch
         where completed_at < (select app_now()) - ${retentionDays}::int * interval '1 day' and expires_in_days is null
           and next_due_at is null and apply = a.apply
         order by completed_at limit ${lookedAt}::bigint) b
      where ${IS_FREE} limit ${limit})`;
}

/** For a provider batch: all its steps are removed, and it is older than `days`. Index: `provider_batch_emptied`. */
export function isEmptied(days: number): RawBuilder<boolean> {
  return sql`forgotten_steps > 0 and forgotten_steps = request_count and next_due_at is null
    and created_at < (select app_now()) - ${days}::int * interval '1 day'`;
}
