import { toStorable } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';
import { expectRows } from '../run/decided-rows.ts';

/** The message that tells a run what others wrote into its memory. */
export interface Notice {
  readonly run_id: string;
  readonly content_json: string;
}

/**
 * Adds notices to newly sealed requests: each is the last message that its request shows, and the run knows the blocks of
 * the step from then on. The caller has sealed the steps in this transaction.
 * Throws: `stale`, keeping nothing, for a run without a sealed step in the provider batch.
 * Locks: runs, which the sealing holds already.
 */
export async function commitNotices(
  trx: Tx,
  providerBatchId: string,
  notices: readonly Notice[],
): Promise<void> {
  if (notices.length === 0) return;
  const payload = notices.map(({ run_id, content_json }) => ({ r: run_id, c: toStorable(content_json) }));
  await expectRows(
    'memory_notice',
    notices.length,
    sql`
    with d as materialized (
      select * from json_to_recordset(${JSON.stringify(payload)}::json) as d(r uuid, c text)),
    moved as (
      update run set last_seq = last_seq + 1 from d where id = d.r and state = 'in_flight'
      returning id, project_id, conversation_id, last_seq, d.c),
    told as (
      insert into message (project_id, conversation_id, seq, run_id, role, content, created_at)
      select project_id, conversation_id, last_seq, id, 'user', c::json, (select app_now()) from moved),
    shown as (
      update step s set context_to_seq = m.last_seq
        from moved m
       where s.run_id = m.id and s.provider_batch_id = ${providerBatchId}::uuid and s.state = 'sealed'
      returning s.run_id, s.project_id, m.last_seq, s.block_ids, s.block_revisions, s.block_labels)
    insert into memory_notice (run_id, seq, project_id, block_ids, block_revisions, block_labels)
    select run_id, last_seq, project_id, block_ids, block_revisions, block_labels from shown
    `,
    trx,
  );
}

/**
 * Notes that newly sealed requests of these runs tell nothing of what has changed: the runs know the blocks of their latest
 * step before, and their calls are judged by that.
 */
export async function commitUntold(
  trx: Tx,
  providerBatchId: string,
  runIds: readonly string[],
): Promise<void> {
  if (runIds.length === 0) return;
  await sql`
    update step s set block_ids = l.block_ids, block_revisions = l.block_revisions, block_labels = l.block_labels
      from step t
     cross join lateral (
       select block_ids, block_revisions, block_labels from step
        where run_id = t.run_id and (number, attempt) < (t.number, t.attempt)
        order by number desc, attempt desc limit 1) l
     where t.provider_batch_id = ${providerBatchId}::uuid and t.run_id = any(${uuidArray(runIds)}::uuid[])
       and s.run_id = t.run_id and s.number = t.number and s.attempt = t.attempt
  `.execute(trx);
}
