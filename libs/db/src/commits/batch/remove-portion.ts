import { sql } from 'kysely';
import { fenced, GIVE_LEASE_BACK, type Lease } from '../../claims/lease.ts';
import type { Tx } from '../../connect.ts';
import { AS_FIRST, UNMERGED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';
import { forgetCursorSpans } from '../cursor/forget-cursor-spans.ts';

/** The rows that a portion removed. */
export interface RemovedPortion {
  readonly runs: number;
  readonly steps: number;
  /** Nothing is left; the lease is released. */
  readonly is_over: boolean;
}

/** Runs of one conversation, which stand side by side in their batch, at most. */
const RUNS_OF_CONVERSATION_MAX = 100;
/** Rows of a batch beside its runs that a portion removes from each table. */
const OTHER_ROWS = 5_000;

/**
 * Removes the next `limit` runs of a forgotten batch, each with everything that belongs to it alone: its steps, calls,
 * notices, failure and quarantined lines, and an isolated conversation with its messages and summaries. Runs that share an
 * isolated conversation go together. After the last run the rows of the batch go.
 * Each portion leaves every invariant intact, and a removed portion is not looked at again.
 * Throws: `fenced`. Locks: the forgotten batch, then provider batches in id order.
 * Index: the unique (batch, ordinal); primary keys.
 */
export async function removePortion(trx: Tx, lease: Lease, limit: number): Promise<RemovedPortion> {
  const { rows } = await sql<{ next_ordinal: number }>`
    select next_ordinal from forgotten_batch
     where id = ${lease.id}::uuid and lease_epoch = ${lease.epoch} for no key update
  `.execute(trx);
  const [batch] = rows;
  if (batch === undefined) throw fenced(lease);
  const from = await readNextOrdinal(trx, lease.id, batch.next_ordinal);
  const runs = from === null ? [] : await readNextRuns(trx, lease.id, from, limit);
  if (runs.length === 0) return { runs: 0, steps: 0, is_over: await removeRest(trx, lease) };
  await forgetCursorSpans(
    trx,
    runs.map(({ id }) => id),
  );
  const steps = await removeRuns(trx, lease.id, runs);
  const next =
    runs.reduce((last, { ordinal, is_first }) => (is_first ? Math.max(last, ordinal) : last), 0) + 1;
  await trx.updateTable('forgotten_batch').set({ next_ordinal: next }).where('id', '=', lease.id).execute();
  return { runs: runs.length, steps, is_over: false };
}

interface RunToRemove {
  readonly id: string;
  readonly ordinal: number;
  readonly conversation_id: string;
  /** Whether the conversation is its agent's and stays. */
  readonly is_own: boolean;
  /** False for a run behind the portion that shares the last conversation. */
  readonly is_first: boolean;
}

async function readNextOrdinal(trx: Tx, batchId: string, from: number): Promise<number | null> {
  const { rows } = await sql<{ ordinal: number | null }>`
    select min(ordinal) as ordinal from run where batch_id = ${batchId}::uuid and ordinal >= ${from}
  `.execute(trx);
  return rows[0]?.ordinal ?? null;
}

/** Reads the runs of a range of places; a limit instead would be sorted by a planner that expects few. */
async function readNextRuns(
  trx: Tx,
  batchId: string,
  fromOrdinal: number,
  limit: number,
): Promise<readonly RunToRemove[]> {
  const { rows } = await sql<RunToRemove>`
    with portion as (
      select id, ordinal, conversation_id, agent_id from run
       where batch_id = ${batchId}::uuid and ordinal between ${fromOrdinal} and ${fromOrdinal + limit - 1}),
    behind as (
      select r.id, r.ordinal, r.conversation_id, r.agent_id
        from (select ordinal, conversation_id from portion order by ordinal desc limit 1) l
       cross join lateral (
         select id, ordinal, conversation_id, agent_id from run
          where batch_id = ${batchId}::uuid and ordinal > l.ordinal
            and ordinal <= l.ordinal + ${RUNS_OF_CONVERSATION_MAX} ${UNMERGED}) r
       where r.conversation_id = l.conversation_id)
    select p.id, p.ordinal, p.conversation_id, a.conversation_id is not distinct from p.conversation_id as is_own, p.is_first
      from (select *, true as is_first from portion union all select *, false from behind) p
      left join lateral (select conversation_id from agent where id = p.agent_id ${UNMERGED}) a on true
     order by p.ordinal
  `.execute(trx);
  return rows;
}

/** Removes runs with their rows and returns the number of their steps. */
async function removeRuns(trx: Tx, batchId: string, runs: readonly RunToRemove[]): Promise<number> {
  const ids = sql`any(${uuidArray(runs.map(({ id }) => id))}::uuid[])`;
  const own = sql`any(${uuidArray(runs.filter((run) => run.is_own).map(({ id }) => id))}::uuid[])`;
  const isolated = [...new Set(runs.filter((run) => !run.is_own).map((run) => run.conversation_id))];
  const conversations = sql`any(${uuidArray(isolated)}::uuid[])`;
  const { rows } = await sql<{ steps: number }>`
    with steps as (delete from step where run_id = ${ids} returning run_id, provider_batch_id),
    calls as (delete from tool_call where run_id = ${ids}),
    outputs as (delete from tool_call_output where run_id = ${ids}),
    notices as (delete from memory_notice where run_id = ${ids}),
    failures as (delete from run_failure where batch_id = ${batchId}::uuid and run_id = ${ids}),
    messages as (delete from message where conversation_id = ${conversations}),
    summaries as (delete from conversation_summary where conversation_id = ${conversations}),
    gone as (delete from conversation where id = ${conversations}),
    -- A custom id holds the first 26 digits of the run's id.
    lines as (
      delete from result_line l using (select distinct run_id, provider_batch_id from steps) s
       where l.provider_batch_id = s.provider_batch_id
         and substr(split_part(l.custom_id, '-', 2), 1, 26) = substr(replace(s.run_id::text, '-', ''), 1, 26)),
    stay as (
      insert into forgotten_run (run_id, batch_id, project_id)
      select id, batch_id, project_id from run where id = ${own} and started_at is not null),
    runs as (delete from run where id = ${ids}),
    counted as (select provider_batch_id as id, count(*)::int as steps from steps group by provider_batch_id),
    locked ${AS_FIRST} (
      select id from provider_batch where id in (select id from counted) order by id for no key update),
    booked as (
      update provider_batch p set forgotten_steps = p.forgotten_steps + c.steps
        from locked l join counted c on c.id = l.id where p.id = l.id)
    select count(*)::int as steps from steps
  `.execute(trx);
  return rows[0]?.steps ?? 0;
}

/** Removes rows of a batch without runs; true after the last, with the lease released. */
async function removeRest(trx: Tx, { id }: Lease): Promise<boolean> {
  const { rows } = await sql<{ removed: number }>`
    with ended as (
      delete from ended_runs where batch_id = ${id}::uuid and (slot, version) in (
        select slot, version from ended_runs where batch_id = ${id}::uuid limit ${OTHER_ROWS}) returning 1),
    minutes as (
      delete from batch_minute where batch_id = ${id}::uuid and (minute, slot) in (
        select minute, slot from batch_minute where batch_id = ${id}::uuid limit ${OTHER_ROWS}) returning 1),
    sent as (
      delete from sent_steps where batch_id = ${id}::uuid and provider_batch_id in (
        select provider_batch_id from sent_steps where batch_id = ${id}::uuid limit ${OTHER_ROWS}) returning 1),
    agents as (
      delete from batch_agent where batch_id = ${id}::uuid and ordinal in (
        select ordinal from batch_agent where batch_id = ${id}::uuid limit ${OTHER_ROWS}) returning 1),
    retries as (
      delete from batch_retry_run where batch_id = ${id}::uuid and ordinal in (
        select ordinal from batch_retry_run where batch_id = ${id}::uuid limit ${OTHER_ROWS}) returning 1),
    changes as (
      delete from held_change where batch_id = ${id}::uuid and draft_id in (
        select draft_id from held_change where batch_id = ${id}::uuid limit ${OTHER_ROWS}) returning draft_id),
    -- An accepted new block is its draft, and no longer held.
    drafts as (delete from block where held_by_batch_id = ${id}::uuid and id in (select draft_id from changes))
    select ((select count(*) from ended) + (select count(*) from minutes) + (select count(*) from sent) + (select count(*) from agents)
            + (select count(*) from retries) + (select count(*) from changes))::int as removed
  `.execute(trx);
  if ((rows[0]?.removed ?? 0) > 0) return false;
  await sql`
    update forgotten_batch set removed_at = app_now(), next_due_at = null, ${GIVE_LEASE_BACK} where id = ${id}::uuid
  `.execute(trx);
  return true;
}
