import {
  NightshiftError,
  RATE_WINDOW_MINUTES,
  type BatchState,
  type ProgressFacts,
} from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { AS_FIRST, UNMERGED } from '../../fragments.ts';
import { selectBatches, type BatchRow } from './batches.ts';

/** The progress of a batch, and its version. */
export interface BatchProgress {
  readonly id: string;
  /** Rises with each commit that changes its counts or its row. */
  readonly version: number;
  readonly facts: ProgressFacts;
}

/** A batch to read, unless its version is still this one; null reads it in any case. */
export interface WatchedBatch {
  readonly id: string;
  readonly known_version: number | null;
}

/** The facts of a progress that are not in the rows of the batch and its counts. */
interface Surroundings {
  readonly now: Date;
  readonly steps_at_provider: number;
  readonly oldest_sent_at: Date | null;
  readonly next_look_at: Date | null;
  readonly ended_in_window: number;
  readonly window_from: Date | null;
  readonly is_paused: boolean;
  readonly pause_reason: string | null;
  readonly paused_until: Date | null;
  readonly due_since: Date | null;
  readonly is_any_leased: boolean;
}

interface ProgressRow extends Surroundings {
  readonly id: string;
  readonly version: number;
  readonly state: BatchState;
  readonly state_reason: string | null;
  readonly created_at: Date;
  readonly total: number;
  readonly accepted: number;
  readonly queued: number;
  readonly requires_action: number;
  readonly retrying: number;
  readonly tool_calls: number;
  readonly ended_tool_calls: number;
  readonly failed_tool_calls: number;
  readonly unknown_tool_calls: number;
  readonly ended: number;
  readonly waits_for_room: boolean;
  readonly last_ended_at: Date | null;
}

/** The columns of {@link Surroundings}, of the subqueries `s`, `m` and `h`. */
const SURROUNDINGS = sql`
  app_now() as now, s.steps_at_provider, s.oldest_sent_at, s.next_look_at, m.ended_in_window, m.window_from, h.is_paused,
  h.pause_reason, h.paused_until, h.due_since, coalesce(h.is_any_leased, false) as is_any_leased`;

/** For an open batch `b`: its steps in provider batches that the provider has not reported as ended. */
const AT_PROVIDER = sql`
  select coalesce(sum(q.steps), 0)::int as steps_at_provider, min(p.submit_started_at) as oldest_sent_at,
         min(p.next_due_at) filter (where p.state in ('submitted','cancelling')) as next_look_at
    from sent_steps q
   cross join lateral (
     select nonce, state, submit_started_at, next_due_at from provider_batch where id = q.provider_batch_id ${UNMERGED}) p
   where q.batch_id = b.id and b.state not in ('completed','failed','cancelled')
     and p.nonce = q.nonce and p.state in ('submitting','submitted','unknown','cancelling')`;

/** For a batch `b`: the runs that ended in the window before its last end. The minute of the last end belongs to the window. */
function endedInWindow(lastEndedAt: RawBuilder<unknown>): RawBuilder<unknown> {
  const from = sql`date_trunc('minute', ${lastEndedAt}) - interval '1 minute' * ${RATE_WINDOW_MINUTES - 1}::int`;
  return sql`
    select coalesce(sum(ended), 0)::int as ended_in_window, greatest(b.created_at, ${from}) as window_from
      from batch_minute where batch_id = b.id and minute >= ${from}`;
}

/** The state of the installation: a pause of the credential, the longest due row, and the leases if that is long due. */
function house(projectId: string): RawBuilder<unknown> {
  return sql`
    select p.is_paused is true as is_paused, p.pause_reason, p.paused_until, d.due_since,
           d.due_since < app_now() - interval '30 seconds' and (
             exists (select from batch where next_due_at is not null and lease_until > app_now())
             or exists (select from provider_batch where next_due_at is not null and lease_until > app_now())
             or exists (select from run_chunk where lease_until > app_now())
             or exists (select from credential where lease_until > app_now())) as is_any_leased
      from (select least(
              (select next_due_at from batch where next_due_at is not null and lease_until < app_now() order by next_due_at limit 1),
              (select min(x.due) from unnest(array['building','submitting','submitted','ended','unknown','cancelling']) as s(state)
                cross join lateral (
                  select next_due_at as due from provider_batch
                   where state = s.state and next_due_at is not null and lease_until < app_now() order by next_due_at limit 1) x),
              (select next_due_at from run_chunk where kind = 'ready' and lease_until < app_now() order by next_due_at limit 1),
              (select next_due_at from run_chunk where kind = 'tools' and lease_until < app_now() order by next_due_at limit 1)
            ) as due_since) d
      left join lateral (
        select true as is_paused, coalesce(pause_reason, '') as pause_reason,
               case when isfinite(paused_until) then paused_until end as paused_until
          from credential where paused_until > app_now() and project_id = ${projectId}::uuid
         order by credential.paused_until desc limit 1) p on true`;
}

/**
 * Reads the progress of batches, in one statement whatever their number, and without those whose version is known. Counts
 * come from the tally rows, rates from the minutes of the chart, and never from runs or steps.
 * Index: primary keys, `run_chunk_due`, `provider_batch_due`, `batch_due`.
 */
export async function readProgress(
  db: Database,
  projectId: string,
  batches: readonly WatchedBatch[],
): Promise<readonly BatchProgress[]> {
  if (batches.length === 0) return [];
  const { rows } = await sql<ProgressRow>`
    with changed ${AS_FIRST} (
      select b.id, b.state, b.state_reason, b.created_at, b.total, b.accepted, t.queued, t.requires_action, t.retrying, t.ended,
             t.tool_calls, t.ended_tool_calls, t.failed_tool_calls, t.unknown_tool_calls, t.last_ended_at,
             b.version + t.version as version
        from json_to_recordset(${JSON.stringify(batches)}::json) as w(id uuid, known_version bigint)
       cross join lateral (select * from batch where id = w.id ${UNMERGED}) b
       cross join lateral (
         select coalesce(sum(version), 0)::bigint as version, coalesce(sum(queued), 0)::int as queued,
                coalesce(sum(requires_action), 0)::int as requires_action, coalesce(sum(retrying), 0)::int as retrying,
                coalesce(sum(tool_calls), 0)::int as tool_calls, coalesce(sum(ended_tool_calls), 0)::int as ended_tool_calls,
                coalesce(sum(failed_tool_calls), 0)::int as failed_tool_calls,
                coalesce(sum(unknown_tool_calls), 0)::int as unknown_tool_calls,
                max(last_ended_at) as last_ended_at,
                coalesce(sum(completed + failed + cancelled + expired), 0)::int as ended
           from batch_tally where batch_id = b.id ${UNMERGED}) t
       where b.project_id = ${projectId}::uuid and (w.known_version is null or b.version + t.version <> w.known_version)),
    house ${AS_FIRST} (select * from (${house(projectId)}) h where exists (select from changed))
    select b.*, coalesce((select room <> 'open' from batch_budget where batch_id = b.id), false) as waits_for_room, ${SURROUNDINGS}
      from changed b
     cross join house h
     cross join lateral (${AT_PROVIDER}) s
     cross join lateral (${endedInWindow(sql`b.last_ended_at`)}) m
  `.execute(db);
  return rows.map(toProgress);
}

function toProgress({
  id,
  version,
  is_paused,
  pause_reason,
  paused_until,
  ...facts
}: ProgressRow): BatchProgress {
  const credential_pause = is_paused ? { reason: pause_reason ?? '', until: paused_until } : null;
  return { id, version, facts: { ...facts, credential_pause } };
}

/** Reads the progress of a batch. Throws: `not_found`. Index: as {@link readProgress}. */
export async function readBatchProgress(
  db: Database,
  projectId: string,
  batchId: string,
): Promise<BatchProgress> {
  const [progress] = await readProgress(db, projectId, [{ id: batchId, known_version: null }]);
  if (progress === undefined) throw unknownBatch(batchId);
  return progress;
}

/** A batch and its progress, of one moment. */
export interface BatchWithProgress {
  readonly batch: BatchRow;
  readonly progress: BatchProgress;
}

/** Reads a batch with its progress in one statement. Throws: `not_found`. Index: as {@link readProgress}. */
export async function readBatchWithProgress(
  db: Database,
  projectId: string,
  batchId: string,
): Promise<BatchWithProgress> {
  const around = sql<Surroundings>`(
    select ${SURROUNDINGS}
      from (${AT_PROVIDER}) s, (${endedInWindow(sql`t.last_ended_at`)}) m, (${house(projectId)}) h ${UNMERGED})`;
  const row = await selectBatches(db)
    .innerJoinLateral(around.as('a'), (join) => join.onTrue())
    .selectAll('a')
    .where('b.id', '=', batchId)
    .where('b.project_id', '=', projectId)
    .executeTakeFirst();
  if (row === undefined) throw unknownBatch(batchId);
  const ended = row.completed + row.failed + row.cancelled + row.expired;
  return { batch: row, progress: toProgress({ ...row, ended }) };
}

function unknownBatch(batchId: string): NightshiftError {
  return new NightshiftError('not_found', `There is no batch job-${batchId}.`);
}
