import type { StopReason } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { isKept } from '../../fragments.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { toKeyset, type Page } from '../keyset.ts';

/** Failures of a batch with alike messages. */
export interface FailureGroup {
  readonly error_group: string;
  readonly stop_reason: StopReason;
  /** Ended runs. */
  readonly runs: number;
  /** Open runs whose last attempt failed with such a message, and that are tried again. */
  readonly retrying: number;
  /** ISO times; null for a group without ended runs. */
  readonly first_failed_at: Date | null;
  readonly last_failed_at: Date | null;
  readonly samples: readonly {
    readonly run_id: string;
    readonly custom_id: string | null;
    readonly message: string | null;
  }[];
}

/** The largest groups of a batch, and totals of all. */
export interface FailureGroups {
  readonly runs: number;
  readonly groups_total: number;
  readonly groups: readonly FailureGroup[];
}

/** Samples of a group. */
const SAMPLES = 3;

/**
 * The group of an open run `r` by its last failed attempt: that of the failure with which the run would end.
 * Without a failed attempt it has none.
 */
export const GROUP_OF_OPEN: RawBuilder<string> = sql`failure_group(
  case r.last_error ->> 'type' when 'expired' then 'expired' else 'provider_error' end,
  case r.last_error ->> 'type' when 'expired' then null
    when 'unreadable' then 'The provider returned a result that could not be read.' else r.last_error ->> 'message' end)`;

/**
 * Reads the `limit` largest groups of a batch's failures, the largest first, with three samples of each.
 * Index: `run_failure_by_group`, `run_failing`; it reads each failure of the batch once.
 */
export async function readFailureGroups(
  db: Database,
  batchId: string,
  limit: number,
): Promise<FailureGroups> {
  const { rows } = await sql<FailureGroup & { all_runs: number; groups_total: number }>`
    with ended as (
      select fingerprint, count(*)::int as runs, min(stop_reason) as stop_reason, min(failed_at) as first_failed_at, max(failed_at) as last_failed_at
        from run_failure where batch_id = ${batchId}::uuid group by fingerprint),
    open as (
      select ${GROUP_OF_OPEN} as fingerprint, count(*)::int as retrying, min(r.last_error ->> 'type') as type,
             (array_agg(json_build_object('run_id', r.id, 'custom_id', r.custom_id, 'message', r.last_error ->> 'message') order by r.id))[1:${SAMPLES}::int] as samples
        from run r where r.batch_id = ${batchId}::uuid and r.failing_since is not null group by 1),
    largest as (
      select coalesce(e.fingerprint, o.fingerprint) as error_group, coalesce(e.runs, 0) as runs, coalesce(o.retrying, 0) as retrying,
             coalesce(e.stop_reason, case o.type when 'expired' then 'expired' else 'provider_error' end) as stop_reason,
             e.first_failed_at, e.last_failed_at, o.samples,
             sum(coalesce(e.runs, 0)) over ()::int as all_runs, count(*) over ()::int as groups_total
        from ended e full join open o using (fingerprint)
       order by runs desc, retrying desc, error_group limit ${limit})
    select l.error_group, l.runs, l.retrying, l.stop_reason, l.first_failed_at, l.last_failed_at, l.all_runs, l.groups_total,
           coalesce(s.samples, array_to_json(l.samples)) as samples
      from largest l
      left join lateral (
        select json_agg(json_build_object('run_id', f.run_id, 'custom_id', r.custom_id, 'message', f.message) order by f.run_id) as samples
          from (select run_id, message from run_failure
                 where batch_id = ${batchId}::uuid and fingerprint = l.error_group order by run_id limit ${SAMPLES}) f
          join run r on r.id = f.run_id) s on true
     order by l.runs desc, l.retrying desc, l.error_group
  `.execute(db);
  const [first] = rows;
  return {
    runs: first?.all_runs ?? 0,
    groups_total: first?.groups_total ?? 0,
    groups: rows.map(({ all_runs: _runs, groups_total: _total, ...group }) => group),
  };
}

/** A run that ended without success. */
export interface FailureRow {
  readonly run_id: string;
  readonly batch_id: string;
  readonly custom_id: string | null;
  readonly agent_id: string;
  readonly failed_at: Date;
  readonly state: 'failed' | 'expired' | 'cancelled';
  readonly stop_reason: StopReason;
  readonly message: string | null;
  readonly error_group: string;
}

/** Bounds of a list of failures; null for none. */
export interface FailureRange {
  readonly since: string | null;
  readonly until: string | null;
}

/** Reads a page of the failed runs of all batches by the time of their end. Index: `run_failure_by_time`. */
export async function listFailures(
  db: Database,
  projectId: string,
  page: Page,
  { since, until }: FailureRange,
): Promise<Listed<FailureRow>> {
  const owner = sql`f.project_id = ${projectId} and ${isKept('f')}`;
  const keyset = await toKeyset(db, page, 'run_failure', 'f', owner, 'failed_at');
  const within = [
    ...(since === null ? [] : [sql`f.failed_at >= ${since}::timestamptz`]),
    ...(until === null ? [] : [sql`f.failed_at < ${until}::timestamptz`]),
  ];
  const { rows, is_cut } = await readCutPage<FailureRow>(
    db,
    sql`
    select f.run_id, f.batch_id, f.failed_at, f.state, f.stop_reason, f.message, f.fingerprint as error_group, r.custom_id, r.agent_id
      from (select f.* from run_failure f where ${sql.join([owner, keyset.where, ...within], sql` and `)}
             order by ${keyset.orderBy} limit ${page.limit}) f
     cross join lateral (select custom_id, agent_id from run where id = f.run_id offset 0) r
     order by ${keyset.orderBy}`,
    sql`octet_length(concat(p.message))`,
  );
  return { rows: keyset.inOrder(rows), is_cut };
}
