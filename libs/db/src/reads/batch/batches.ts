import {
  NightshiftError,
  type BatchState,
  type CallbackEventName,
  type LastError,
  type PilotResult,
  type PilotSettings,
  type PilotState,
  type StopWhen,
} from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import type { BatchTallyTable } from '../../tables.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { toKeyset, type Keyset, type Page } from '../keyset.ts';
import type { Usage } from '../run/runs.ts';
import { assertServed, conditionsOf, labelOf, ownerOf, type BatchFilter } from './batch-filter.ts';

/** A batch with the counts of its runs. */
export interface BatchRow extends Usage {
  readonly id: string;
  readonly state: BatchState;
  readonly state_reason: string | null;
  readonly total: number;
  readonly accepted: number;
  readonly skipped: Readonly<Record<string, number>>;
  readonly metadata: Record<string, unknown> | null;
  readonly apply: 'auto' | 'review';
  readonly callback_url: string | null;
  readonly callback_events: readonly CallbackEventName[];
  readonly callback_sent_at: Date | null;
  readonly callback_status_code: number | null;
  readonly callback_error: string | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly cancel_requested_at: Date | null;
  readonly completed_at: Date | null;
  readonly schedule_id: string | null;
  readonly tick_due_at: Date | null;
  readonly expires_at: Date | null;
  /** Null for a batch without an estimate. */
  readonly expected_nanousd: number | null;
  /** Share of the bill by which the estimate was above it; null before the end. */
  readonly estimate_error: number | null;
  readonly pilot: PilotSettings | null;
  readonly pilot_state: PilotState | null;
  /** Runs of the pilot; null until they are chosen. */
  readonly pilot_runs: number | null;
  readonly pilot_ended_at: Date | null;
  readonly pilot_result: PilotResult | null;
  readonly name: string | null;
  readonly tags: readonly string[];
  readonly stop_when: StopWhen | null;
  readonly retry_of: string | null;
  readonly queued: number;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
  readonly requires_action: number;
  /** Tool calls with an outcome. */
  readonly ended_tool_calls: number;
  /** Open runs whose present step has failed and is tried again. */
  readonly retrying: number;
  /** The most frequent error among at most {@link SAMPLED_RUNS} of them; null for none. */
  readonly retry_error: LastError | null;
  /** Whether the sample holds errors of other types. */
  readonly retry_errors_vary: boolean | null;
  /** Caps and reservations; null for none. */
  readonly max_cost_nanousd: number | null;
  readonly max_output_tokens: number | null;
  readonly reserved_nanousd: number | null;
  readonly reserved_output_tokens: number | null;
  /** Answers above their reservation, and answers cut off at a limit under the cap. */
  readonly overshoots: number | null;
  readonly cut_offs: number | null;
  /** Rises with each commit that changes its counts or its row. */
  readonly version: number;
  readonly last_ended_at: Date | null;
  /** Whether ready runs wait for room under the cap. */
  readonly waits_for_room: boolean;
}

/** Sums a count over the few tally rows of a batch, so that the cost does not depend on its size. */
function sumOf<
  Name extends Exclude<keyof BatchTallyTable, 'batch_id' | 'slot' | 'project_id' | 'last_ended_at'>,
>(name: Name) {
  return sql<number>`coalesce(sum(${sql.ref(name)}), 0)::bigint`.as(name);
}

/** Runs whose errors are read for the reason of a batch. */
const SAMPLED_RUNS = 100;

/** Selects batches with their counts and caps. Index: primary keys, `run_failing`. */
export function selectBatches(db: Database) {
  return db
    .selectFrom('batch as b')
    .innerJoinLateral(
      (eb) =>
        eb
          .selectFrom('batch_tally')
          .whereRef('batch_id', '=', 'b.id')
          .select([
            ...[sumOf('queued'), sumOf('requires_action'), sumOf('completed'), sumOf('failed')],
            ...[sumOf('cancelled'), sumOf('expired'), sumOf('retrying'), sumOf('steps'), sumOf('tool_calls')],
            ...[sumOf('failed_tool_calls'), sumOf('input_tokens'), sumOf('output_tokens')],
            ...[sumOf('cache_read_tokens'), sumOf('unknown_tool_calls'), sumOf('ended_tool_calls')],
            sql<Date | null>`max(last_ended_at)`.as('last_ended_at'),
            sql<number>`b.version + coalesce(sum(batch_tally.version), 0)::bigint`.as('version'),
            sql<number>`coalesce(sum(cache_write_5m_tokens + cache_write_1h_tokens), 0)::bigint`.as(
              'cache_write_tokens',
            ),
            sql<number | null>`case when coalesce(sum(unpriced_steps), 0) = 0
              then coalesce(sum(cost_nanousd), 0)::bigint end`.as('cost_nanousd'),
          ])
          .as('t'),
      (join) => join.onTrue(),
    )
    .leftJoinLateral(
      sql<{ retry_error: LastError; retry_errors_vary: boolean }>`(
        select (array_agg(last_error order by next_attempt_at desc))[1] as retry_error,
               count(*) <> sum(count(*)) over () as retry_errors_vary
          from (select last_error, next_attempt_at from run where batch_id = b.id and failing_since is not null
                 limit ${SAMPLED_RUNS}) s
         group by last_error->>'type' order by count(*) desc, last_error->>'type' limit 1)`.as('e'),
      (join) => join.onTrue(),
    )
    .leftJoin('batch_budget as g', 'g.batch_id', 'b.id')
    .select(['b.id', 'b.state', 'b.state_reason', 'b.total', 'b.accepted', 'b.skipped', 'b.metadata'])
    .select(['b.apply', 'b.callback_url', 'b.callback_events'])
    .select(['b.callback_sent_at', 'b.callback_status_code', 'b.callback_error'])
    .select(['b.created_at', 'b.updated_at', 'b.cancel_requested_at', 'b.completed_at'])
    .select(['b.schedule_id', 'b.tick_due_at', 'b.expires_at', 'b.expected_nanousd', 'b.estimate_error'])
    .select(['b.name', 'b.tags', 'b.stop_when', 'b.retry_of'])
    .select(['b.pilot', 'b.pilot_state', 'b.pilot_ended_at', 'b.pilot_result'])
    .select(sql<number | null>`cardinality(b.pilot_ordinals)`.as('pilot_runs'))
    .select(['g.max_cost_nanousd', 'g.max_output_tokens', 'g.reserved_nanousd', 'g.reserved_output_tokens'])
    .select(['e.retry_error', 'e.retry_errors_vary'])
    .select(['g.overshoots', 'g.cut_offs'])
    .selectAll('t')
    .select(sql<boolean>`coalesce(g.room <> 'open', false)`.as('waits_for_room'));
}

/** Reads one batch. Throws: `not_found`. Index: primary keys. */
export async function readBatch(db: Database, projectId: string, batchId: string): Promise<BatchRow> {
  const batch = await selectBatches(db)
    .where('b.id', '=', batchId)
    .where('b.project_id', '=', projectId)
    .executeTakeFirst();
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  return batch;
}

/**
 * Reads a page of batches by age.
 * Throws: `validation_failed` for filters that no index serves together.
 * Index: `batch_by_age`, or as `assertServed` says.
 */
export async function listBatches(
  db: Database,
  projectId: string,
  page: Page,
  filter: BatchFilter = {},
): Promise<Listed<BatchRow>> {
  assertServed(filter);
  const owner = ownerOf(projectId, filter);
  const keyset = await toKeyset(db, page, 'batch', 'b', owner);
  const conditions = sql<boolean>`${conditionsOf(filter)} and ${keyset.where}`;
  const label = labelOf(filter);
  const isInPage =
    label === null
      ? sql<boolean>`${owner} and ${conditions}`
      : filter.state === undefined
        ? sql<boolean>`b.id in (${labelledPage(projectId, label, filter, keyset, page.limit)})`
        : sql<boolean>`${owner} and ${conditions} and exists (
            select from batch_label l where l.project_id = ${projectId} and l.label = ${label}
               and l.created_at = b.created_at and l.batch_id = b.id offset 0)`;
  const read = async (where: RawBuilder<boolean>): Promise<Listed<BatchRow>> => {
    const query = selectBatches(db).where(where).orderBy(keyset.orderBy).limit(page.limit);
    const size = sql`octet_length(concat(p.metadata))`;
    const { rows, is_cut } = await readCutPage<BatchRow>(db, sql`${query}`, size);
    return { rows: keyset.inOrder(rows), is_cut };
  };
  if (filter.name !== undefined && filter.state === undefined) {
    const near = await read(sql`b.id in (${namedNearby(projectId, filter, keyset, page.limit)})`);
    if (near.is_cut || near.rows.length === page.limit) return near;
  }
  return read(isInPage);
}

/** Batches that are looked at for a part of a name before its index, which would sort all batches with a common part. */
const NAMES_WALKED = 1_000;

/** Selects the ids of a page of batches with a part of a name, among the next ones of the list. Index: `batch_by_age`. */
function namedNearby(
  projectId: string,
  { name, ...times }: BatchFilter,
  keyset: Keyset,
  limit: number,
): RawBuilder<unknown> {
  return sql`
    select b.id
      from (select b.id, b.created_at, b.name from batch b
             where b.project_id = ${projectId} and ${conditionsOf(times)} and ${keyset.where}
             order by ${keyset.orderBy} limit ${NAMES_WALKED}) b
     where ${conditionsOf({ name })}
     order by ${keyset.orderBy} limit ${limit}`;
}

/** Selects the ids of a page of batches with a label. Index: primary key of `batch_label`, in the order of the page. */
function labelledPage(
  projectId: string,
  label: string,
  { created_after, created_before }: BatchFilter,
  keyset: Keyset,
  limit: number,
): RawBuilder<unknown> {
  return sql`
    select b.id from (select batch_id as id, created_at, project_id, label from batch_label) b
     where b.project_id = ${projectId} and b.label = ${label} and ${conditionsOf({ created_after, created_before })}
       and ${keyset.where}
     order by ${keyset.orderBy} limit ${limit}`;
}

/** Reads the handles of the models in a batch's runs. Index: the unique (batch, ordinal). */
export async function readBatchModels(db: Database, batchId: string): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('definition')
    .select('model')
    .distinct()
    .where('id', 'in', (eb) => eb.selectFrom('run').select('definition_id').where('batch_id', '=', batchId))
    .orderBy('model')
    .execute();
  return rows.map((row) => row.model);
}
