import type { ContentBlock, Json, JsonObject, RunState, StopReason } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { anyUuid, UNMERGED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { parseContent } from '../run/messages.ts';

/** A run that has ended, for the results of its batch. */
export interface ResultRow {
  /** Its ordinal in the batch, or its place among the requested ids, from 1. */
  readonly place: number;
  readonly id: string;
  readonly batch_id: string;
  readonly agent_id: string;
  readonly conversation_id: string;
  readonly custom_id: string | null;
  readonly state: RunState;
  readonly stop_reason: StopReason;
  readonly error: JsonObject | null;
  /** Its typed result; null for none. */
  readonly result: Json;
  readonly attempt: number;
  readonly first_seq: number | null;
  readonly last_seq: number | null;
  /** Content of its last answer; null with a typed result, and without an answer. */
  readonly answer: readonly ContentBlock[] | null;
}

/** The runs of a download; null does not filter. */
export interface ResultFilter {
  readonly states: readonly RunState[];
  readonly stop_reasons: readonly StopReason[] | null;
  /** Fingerprint of failures. */
  readonly error_group: string | null;
  /** Whether the messages of the runs count towards the size of a page. */
  readonly messages: boolean;
}

type Stored = Omit<ResultRow, 'answer'> & { readonly answer: readonly ContentBlock[] | string | null };

/** Bytes of stored texts after which a page ends. */
const PAGE_BYTES = 2 * 1024 * 1024;

/**
 * Reads the ended runs of a batch with ordinals from `range.from` below `range.below`, in this order. The last run that `retries`,
 * which are later batches, made for a run stands in for it.
 * Index: the unique (batch, ordinal), `batch_retry_run_by_run` for retries; then primary keys of `message` and `run_failure`.
 */
export async function readResultsInOrder(
  db: Database,
  batchId: string,
  range: { readonly from: number; readonly below: number },
  filter: ResultFilter,
  retries: readonly string[] = [],
): Promise<Listed<ResultRow>> {
  const inRange = sql`r.batch_id = ${batchId}::uuid and r.ordinal >= ${range.from}::int and r.ordinal < ${range.below}::int`;
  const runs =
    retries.length === 0
      ? sql`select r.ordinal as place, r.* from run r where ${inRange} order by r.ordinal`
      : sql`
        select o.place, r.*
          from (select r.ordinal as place, r.id from run r where ${inRange} order by r.ordinal ${UNMERGED}) o
         cross join lateral (
           with recursive attempt as (
             select o.id, 1 as number
             union all
             select t.retry_run_id, a.number + 1
               from attempt a
              cross join lateral (select batch_id, retry_run_id from batch_retry_run where run_id = a.id ${UNMERGED}) t
              where t.retry_run_id is not null and t.batch_id = ${anyUuid(retries)})
           select id from attempt order by number desc limit 1) last
         cross join lateral (select * from run where id = last.id ${UNMERGED}) r
         order by o.place`;
  return readResults(db, runs, filter);
}

/** Reads these runs as far as they exist, in the given order. Index: primary keys. */
export async function readResultsOfRuns(
  db: Database,
  runIds: readonly string[],
  filter: ResultFilter,
): Promise<Listed<ResultRow>> {
  const runs = sql`
    select e.place::int as place, r.*
      from unnest((select ${uuidArray(runIds)}::uuid[])) with ordinality as e(id, place)
     cross join lateral (select * from run where id = e.id ${UNMERGED}) r
     order by e.place`;
  return readResults(db, runs, filter);
}

async function readResults(
  db: Database,
  runs: RawBuilder<unknown>,
  filter: ResultFilter,
): Promise<Listed<ResultRow>> {
  const { stop_reasons, error_group } = filter;
  const conditions = [
    sql`r.state = any(${[...filter.states]}::text[])`,
    ...(stop_reasons === null ? [] : [sql`r.stop_reason = any(${[...stop_reasons]}::text[])`]),
    ...(error_group === null
      ? []
      : [
          sql`(select f.fingerprint from run_failure f where f.batch_id = r.batch_id and f.run_id = r.id) = ${error_group}`,
        ]),
  ];
  const { rows, is_cut } = await readCutPage<Stored>(
    db,
    sql`
    select r.place, r.id, r.batch_id, r.agent_id, r.conversation_id, r.custom_id, r.state, r.stop_reason, r.error, r.result,
           r.attempt, r.first_seq, r.last_seq,
           case when r.result is null then (
             select m.content from message m
              where m.conversation_id = r.conversation_id and m.seq between r.first_seq and r.last_seq and m.role = 'assistant'
              order by m.seq desc limit 1) end as answer
      from (${runs} ${UNMERGED}) r
     where ${sql.join(conditions, sql` and `)}
     order by r.place
    `,
    sizeOf(filter),
    PAGE_BYTES,
  );
  return {
    rows: rows.map((row) => ({ ...row, answer: row.answer === null ? null : parseContent(row.answer) })),
    is_cut,
  };
}

/** The bytes of a run `p`, and of its messages if they are requested. */
function sizeOf({ messages }: ResultFilter): RawBuilder<unknown> {
  const own = sql`octet_length(concat(p.result, p.error, p.answer))`;
  return messages
    ? sql`${own} + coalesce((
        select sum(octet_length(m.content::text)) from message m
         where m.conversation_id = p.conversation_id and m.seq between p.first_seq and p.last_seq), 0)`
    : own;
}
