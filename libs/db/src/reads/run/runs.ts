import {
  isRunEnded,
  NightshiftError,
  toStorableText,
  type Json,
  type JsonObject,
  type LastError,
  type RunState,
  type StopReason,
} from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { IS_KEPT } from '../../fragments.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { uuidArray } from '../../uuid-array.ts';
import { readDirection, refuseCursor, toKeyset, type Keyset, type Page } from '../keyset.ts';

/** A run as stored. */
export interface RunRow {
  readonly id: string;
  readonly batch_id: string;
  readonly agent_id: string;
  readonly conversation_id: string;
  readonly ordinal: number;
  readonly custom_id: string | null;
  readonly state: RunState;
  readonly stop_reason: StopReason | null;
  readonly error: JsonObject | null;
  /** Its result; null for none. */
  readonly result: Json;
  readonly max_steps: number;
  readonly deadline_at: Date | null;
  readonly step_number: number;
  readonly attempt: number;
  readonly first_seq: number | null;
  readonly last_seq: number | null;
  readonly created_at: Date;
  readonly started_at: Date | null;
  readonly ended_at: Date | null;
  readonly max_cost_nanousd: number | null;
  readonly max_output_tokens: number | null;
  /** When the present step of an open run first failed, the last error and the time of the next attempt; null if none did. */
  readonly failing_since: Date | null;
  readonly last_error: LastError | null;
  readonly next_attempt_at: Date | null;
  /** The run that holds the conversation it is queued for; null if the conversation is free or the run is not queued. */
  readonly waits_for_run_id: string | null;
}

/** Filters of a list of runs; null does not filter, an empty list matches none. */
export interface RunFilter {
  readonly batch_id: string | null;
  readonly custom_id: string | null;
  readonly agent_ids: readonly string[] | null;
  readonly states: readonly RunState[] | null;
  readonly stop_reasons: readonly StopReason[] | null;
  /** Whether a call failed or has an unknown outcome. Looks at the calls of every run of the batch until the page is full. */
  readonly tool_calls_failed: boolean | null;
}

const COLUMNS = [
  ...([
    'r.id',
    'r.batch_id',
    'r.agent_id',
    'r.conversation_id',
    'r.ordinal',
    'r.custom_id',
    'r.state',
  ] as const),
  ...(['r.stop_reason', 'r.error', 'r.result', 'r.deadline_at', 'r.max_steps', 'r.step_number'] as const),
  ...(['r.attempt', 'r.first_seq', 'r.last_seq', 'r.created_at', 'r.started_at', 'r.ended_at'] as const),
  ...(['r.max_cost_nanousd', 'r.max_output_tokens'] as const),
  ...(['r.failing_since', 'r.last_error', 'r.next_attempt_at'] as const),
];
const columns = sql.join(COLUMNS.map((name) => sql.ref(name)));
const holder = sql<string | null>`case when r.state = 'queued'
  then (select c.run_id from conversation c where c.id = r.conversation_id) end`.as('waits_for_run_id');

/** Reads one run. Throws: `not_found`. Index: primary keys. */
export async function readRun(db: Database, projectId: string, runId: string): Promise<RunRow> {
  const run = await db
    .selectFrom('run as r')
    .select(COLUMNS)
    .select(holder)
    .where('r.id', '=', runId)
    .where('r.project_id', '=', projectId)
    .where(IS_KEPT)
    .executeTakeFirst();
  if (run === undefined) throw new NightshiftError('not_found', `There is no run run-${runId}.`);
  return run;
}

/**
 * Reads a page of runs by age; runs of one batch by their place in it, which is the same order. A run that awaits its
 * caller also counts the message with its calls towards the page size.
 * Index: `run_by_age`, `run_by_agent`, or the unique (batch, ordinal); the primary key of `conversation` per queued run of
 * the page, and of `tool_call` per run for a filter by calls. A filter for open runs reads only runs as old as an open batch.
 */
export async function listRuns(
  db: Database,
  projectId: string,
  page: Page,
  filter: RunFilter,
): Promise<Listed<RunRow>> {
  const keyset =
    filter.batch_id === null
      ? await toKeyset(
          db,
          page,
          'run',
          'r',
          sql`${ownerCondition(projectId, filter.agent_ids)} and ${IS_KEPT}`,
        )
      : await toOrdinalKeyset(db, page, filter.batch_id);
  const ages = openAges(projectId, keyset, filter);
  const runs = sql`select ${columns} from run r where ${toConditions(projectId, filter)} and ${keyset.where}`;
  const inPage = sql`order by ${keyset.orderBy} limit ${page.limit}`;
  const direction = readDirection(page) === 'asc' ? sql`asc` : sql`desc`;
  // For a range, even of one moment, the planner expects so few rows that it never scans the table, whatever the
  // statistics.
  const pageOfRuns =
    ages === null
      ? sql`${runs} ${inPage}`
      : sql`
    select r.* from (${ages} order by created_at ${direction} offset 0) age
     cross join lateral (${runs} and r.created_at between age.created_at and age.created_at ${inPage}) r
     order by age.created_at ${direction}, r.id ${direction} limit ${page.limit}
  `;
  const { rows, is_cut } = await readCutPage<RunRow>(
    db,
    // Outside the limit, so that these look-ups do not influence the plan of the page.
    sql`select r.*, ${holder} from (${pageOfRuns}) r`,
    sql`octet_length(concat(p.result, p.error)) + case when p.state = 'requires_action' then coalesce((
      select octet_length(m.content::text) from message m
       where m.conversation_id = p.conversation_id and m.seq = p.last_seq), 0) else 0 end`,
  );
  return { rows: keyset.inOrder(rows), is_cut };
}

/**
 * Creation times of the batches to scan, each with its batch: open batches for a filter without ended runs, and among them,
 * for runs that await the caller, only batches whose counts show such runs. Null when any time is possible, and for runs of
 * one batch.
 * Index: `batch_due`, `batch_not_due`.
 */
function openAges(
  projectId: string,
  keyset: Keyset,
  { batch_id, states }: RunFilter,
): RawBuilder<unknown> | null {
  if (batch_id !== null || states === null || states.some(isRunEnded)) return null;
  const holdsSome = states.every((state) => state === 'requires_action')
    ? sql`(select sum(requires_action) from batch_tally where batch_id = b.id) > 0`
    : sql`true`;
  const ages = sql`
    select b.created_at from batch b
     where b.project_id = ${projectId} and ${keyset.spans(sql`b.created_at`)}
       and b.state in ('running', 'paused', 'cancelling') and ${holdsSome}`;
  return sql`${ages} and b.next_due_at is not null union ${ages} and b.next_due_at is null`;
}

function toConditions(projectId: string, filter: RunFilter): RawBuilder<unknown> {
  const conditions = [
    ownerCondition(projectId, filter.agent_ids),
    IS_KEPT,
    ...(filter.batch_id === null ? [] : [sql`r.batch_id = ${filter.batch_id}`]),
    ...(filter.custom_id === null ? [] : [sql`r.custom_id = ${toStorableText(filter.custom_id)}`]),
    ...(filter.states === null
      ? []
      : [filter.states.length === 0 ? sql`false` : sql`r.state = any(${[...filter.states]}::text[])`]),
    ...(filter.tool_calls_failed === null
      ? []
      : [
          sql`exists (select from tool_call c where c.run_id = r.id and c.state in ('failed', 'unknown'))
                = ${filter.tool_calls_failed}`,
        ]),
    ...(filter.stop_reasons === null ? [] : [sql`r.stop_reason = any(${[...filter.stop_reasons]}::text[])`]),
  ];
  return sql.join(conditions, sql` and `);
}

/**
 * The condition on the owner. An agent's runs are ordered in `run_by_agent`; without the project the planner cannot search
 * all its runs instead.
 */
function ownerCondition(projectId: string, agentIds: readonly string[] | null): RawBuilder<unknown> {
  const isOurs = sql`r.project_id = ${projectId}`;
  if (agentIds === null) return isOurs;
  const [agentId, ...others] = agentIds;
  return others.length === 0 && agentId !== undefined
    ? sql`r.agent_id = ${agentId} and coalesce(${isOurs}, false)`
    : sql`${isOurs} and r.agent_id = any(${[...agentIds]}::uuid[])`;
}

async function toOrdinalKeyset(db: Database, page: Page, batchId: string): Promise<Keyset> {
  const cursors = [page.after, page.before].filter((cursor) => cursor !== null);
  const { rows } = await sql<{ id: string; ordinal: number }>`
    select id, ordinal from run where id = any(${cursors}::uuid[]) and batch_id = ${batchId}
  `.execute(db);
  const ordinalOf = (side: 'after' | 'before'): number | undefined =>
    page[side] === null
      ? undefined
      : (rows.find(({ id }) => id === page[side])?.ordinal ?? refuseCursor(side));
  const after = ordinalOf('after');
  const before = ordinalOf('before');
  const ascends = page.order === 'asc';
  const reads = readDirection(page);
  const conditions = [
    ...(after === undefined ? [] : [ascends ? sql`r.ordinal > ${after}` : sql`r.ordinal < ${after}`]),
    ...(before === undefined ? [] : [ascends ? sql`r.ordinal < ${before}` : sql`r.ordinal > ${before}`]),
  ];
  return {
    where: sql.join([sql`true`, ...conditions], sql` and `),
    spans: () => sql`true`,
    orderBy: reads === 'asc' ? sql`r.ordinal asc` : sql`r.ordinal desc`,
    inOrder: (found) => (reads === page.order ? found : [...found].reverse()),
  };
}

/** Steps, calls, tokens and cost of a run or batch, all paid attempts included. */
export interface Usage {
  readonly steps: number;
  readonly tool_calls: number;
  readonly failed_tool_calls: number;
  /** Of the failed calls: those whose outcome is unknown. */
  readonly unknown_tool_calls: number;
  /** Uncached tokens read. */
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_write_tokens: number;
  readonly cache_read_tokens: number;
  /** Billionths of a US dollar; null once a model without a price has answered. */
  readonly cost_nanousd: number | null;
}

/** Reads the usage of runs so far. Index: primary keys of `step` and `tool_call`. */
export async function readRunUsages(
  db: Database,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, Usage>> {
  if (runIds.length === 0) return new Map();
  const { rows } = await sql<Usage & { id: string }>`
    select r.id, s.*, c.*
      from unnest(${uuidArray(runIds)}::uuid[]) as r(id)
     cross join lateral (
       select count(*) filter (where applied_at is not null) as steps,
              coalesce(sum(input_tokens), 0)::bigint as input_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
              coalesce(sum(cache_write_5m_tokens + cache_write_1h_tokens), 0)::bigint as cache_write_tokens,
              coalesce(sum(cache_read_tokens), 0)::bigint as cache_read_tokens,
              case when count(*) = count(cost_nanousd) then coalesce(sum(cost_nanousd), 0)::bigint end as cost_nanousd
         from step where run_id = r.id) s
     cross join lateral (
       select count(*) as tool_calls, count(*) filter (where state in ('failed', 'unknown')) as failed_tool_calls,
              count(*) filter (where state = 'unknown') as unknown_tool_calls
         from tool_call where run_id = r.id) c
  `.execute(db);
  return new Map(rows.map(({ id, ...used }) => [id, used]));
}
