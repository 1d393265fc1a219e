import { NightshiftError, RATE_WINDOW_MINUTES, type BatchState, type ProgressFacts } from '@nightshift/agent-core';
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

interface ProgressRow {
  readonly now: Date;
  readonly id: string;
  readonly version: number;
  readonly state: BatchState;
  readonly state_reason: string | null;
  readonly created_at: Date;
  readonly total: number;
  readonly accepted: number;
  readonly queued: number;
  readonly requires_action: number;
  readonly ended: number;
  readonly waits_for_room: boolean;
  readonly steps_at_provider: number;
  readonly oldest_sent_at: Date | null;
  readonly next_look_at: Date | null;
  readonly last_ended_at: Date | null;
  readonly ended_in_window: number;
  readonly window_from: Date | null;
  readonly is_paused: boolean;
  readonly pause_reason: string | null;
  readonly paused_until: Date | null;
  readonly due_since: Date | null;
  readonly is_any_leased: boolean;
}

/** Unit: minutes. The minute of the last end belongs to the window. */
const WINDOW = sql`interval '1 minute' * ${RATE_WINDOW_MINUTES - 1}::int`;
/** A due row that waits so long makes the statement look for leases. */
const LONG_DUE = sql`app_now() - interval '30 seconds'`;

/** Selects the {@link ProgressRow} of batches, without those whose version is known. */
function selectProgress(projectId: string, batches: readonly WatchedBatch[]): RawBuilder<ProgressRow> {
  return sql<ProgressRow>`
    with changed ${AS_FIRST} (
      select b.*, t.queued, t.requires_action, t.ended, b.version + t.version as whole_version
        from json_to_recordset(${JSON.stringify(batches)}::json) as w(id uuid, known_version bigint)
       cross join lateral (
         select id, project_id, state, state_reason, created_at, total, accepted, version from batch where id = w.id ${UNMERGED}) b
       cross join lateral (
         select coalesce(sum(version), 0)::bigint as version, coalesce(sum(queued), 0)::int as queued,
                coalesce(sum(requires_action), 0)::int as requires_action,
                coalesce(sum(completed + failed + cancelled + expired), 0)::int as ended
           from batch_tally where batch_id = b.id ${UNMERGED}) t
       where b.project_id = ${projectId}::uuid and (w.known_version is null or b.version + t.version <> w.known_version)),
    house ${AS_FIRST} (
      select p.name is not null as is_paused, p.reason, p.until, d.since as due_since,
             d.since < ${LONG_DUE} and (
               exists (select from batch where next_due_at is not null and lease_until > app_now())
               or exists (select from provider_batch where next_due_at is not null and lease_until > app_now())
               or exists (select from run_chunk where lease_until > app_now())
               or exists (select from credential where lease_until > app_now())) as is_any_leased
        from (select least(
                (select next_due_at from batch where next_due_at is not null and lease_until < app_now() order by next_due_at limit 1),
                (select min(x.due) from unnest(array['building','submitting','submitted','ended','unknown','cancelling']) as s(state)
                  cross join lateral (
                    select next_due_at as due from provider_batch
                     where state = s.state and next_due_at is not null and lease_until < app_now()
                     order by next_due_at limit 1) x),
                (select min(x.due) from unnest(array['ready','tools']) as k(kind)
                  cross join lateral (
                    select next_due_at as due from run_chunk
                     where kind = k.kind and lease_until < app_now() order by next_due_at limit 1) x)) as since) d
        left join lateral (
          select name, coalesce(pause_reason, '') as reason, case when isfinite(paused_until) then paused_until end as until
            from credential where paused_until > app_now() and project_id = ${projectId}::uuid
           order by paused_until desc limit 1) p on true
       where exists (select from changed))
    select app_now() as now, c.id, c.whole_version as version, c.state, c.state_reason, c.created_at, c.total, c.accepted, c.queued,
           c.requires_action, c.ended, coalesce(g.room <> 'open', false) as waits_for_room,
           s.steps as steps_at_provider, s.oldest_sent_at, s.next_look_at, e.last_ended_at, m.ended as ended_in_window,
           greatest(c.created_at, date_trunc('minute', e.last_ended_at) - ${WINDOW}) as window_from,
           h.is_paused, h.reason as pause_reason, h.until as paused_until, h.due_since,
           coalesce(h.is_any_leased, false) as is_any_leased
      from changed c
     cross join house h
      left join batch_budget g on g.batch_id = c.id
     cross join lateral (
       select coalesce(sum(s.steps), 0)::int as steps, min(p.submit_started_at) as oldest_sent_at,
              greatest(min(p.next_due_at) filter (where p.state in ('submitted','cancelling')), max(r.look_from)) as next_look_at
         from sent_steps s
        cross join lateral (
          select nonce, state, credential, submit_started_at, next_due_at from provider_batch where id = s.provider_batch_id ${UNMERGED}) p
         left join credential r on r.name = p.credential
        where s.batch_id = c.id and c.state not in ('completed','failed','cancelled')
          and p.nonce = s.nonce and p.state in ('submitting','submitted','unknown','cancelling')) s
     cross join lateral (
       select max(l.ended_at) as last_ended_at from batch_tally t
        cross join lateral (
          select ended_at from ended_runs where batch_id = t.batch_id and slot = t.slot order by version desc limit 1) l
        where t.batch_id = c.id) e
     cross join lateral (
       select coalesce(sum(ended), 0)::int as ended from batch_minute
        where batch_id = c.id and minute >= date_trunc('minute', e.last_ended_at) - ${WINDOW}) m
  `;
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
  const { rows } = await selectProgress(projectId, batches).execute(db);
  return rows.map(toProgress);
}

function toProgress({ id, version, is_paused, pause_reason, paused_until, ...facts }: ProgressRow): BatchProgress {
  const credential_pause = is_paused ? { reason: pause_reason ?? '', until: paused_until } : null;
  return { id, version, facts: { ...facts, credential_pause } };
}

/** Reads the progress of a batch. Throws: `not_found`. Index: as {@link readProgress}. */
export async function readBatchProgress(db: Database, projectId: string, batchId: string): Promise<BatchProgress> {
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
export async function readBatchWithProgress(db: Database, projectId: string, batchId: string): Promise<BatchWithProgress> {
  const progress = selectProgress(projectId, [{ id: batchId, known_version: null }]);
  const row = await selectBatches(db)
    .select(sql<InJson<ProgressRow>>`(select to_json(p) from (${progress}) p)`.as('progress'))
    .where('b.id', '=', batchId)
    .where('b.project_id', '=', projectId)
    .executeTakeFirst();
  if (row === undefined) throw unknownBatch(batchId);
  const { progress: json, ...batch } = row;
  return { batch, progress: toProgress(fromJson(json)) };
}

/** A row as JSON, whose times are texts. */
type InJson<Row> = { readonly [K in keyof Row]: Date extends Row[K] ? string | Extract<Row[K], null> : Row[K] };

function fromJson(row: InJson<ProgressRow>): ProgressRow {
  const at = (time: string | null): Date | null => (time === null ? null : new Date(time));
  return {
    ...row,
    now: new Date(row.now),
    created_at: new Date(row.created_at),
    oldest_sent_at: at(row.oldest_sent_at),
    next_look_at: at(row.next_look_at),
    last_ended_at: at(row.last_ended_at),
    window_from: at(row.window_from),
    paused_until: at(row.paused_until),
    due_since: at(row.due_since),
  };
}

function unknownBatch(batchId: string): NightshiftError {
  return new NightshiftError('not_found', `There is no batch job-${batchId}.`);
}
