import { sql } from 'kysely';
import { NOW } from '../../fragments.ts';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/**
 * Marks the spans of a batch's agents with passages, or changes to these blocks, as reverted: their messages are new again,
 * unless a later span moved the cursor past them. Call it while the passages exist. Takes the filter of the revert.
 * Locks: the spans; the caller holds the batch. Index: `cursor_span_by_batch`, `block_revision_by_batch`,
 * `block_event_by_batch`, `passage_by_batch`.
 */
export async function revertCursorSpans(
  trx: Tx,
  batchId: string,
  blockIds: readonly string[],
  {
    agent_ids,
    block_ids,
  }: { readonly agent_ids: readonly string[] | null; readonly block_ids: readonly string[] | null },
): Promise<void> {
  await sql`
    update cursor_span set reverted_at = ${NOW}
     where batch_id = ${batchId} and reverted_at is null and agent_id in (
       select s.agent_id from block_revision n join cursor_span s on s.run_id = n.run_id
        where n.batch_id = ${batchId} and n.block_id = any(${uuidArray(blockIds)}::uuid[])
       union
       select e.agent_id from block_event e
        where e.batch_id = ${batchId} and e.block_id = any(${uuidArray(blockIds)}::uuid[])
       union
       select p.agent_id from passage p
        where p.batch_id = ${batchId} and p.held_by_batch_id is null and ${block_ids === null})
       and ${agent_ids === null ? sql`true` : sql`agent_id = any(${uuidArray(agent_ids)}::uuid[])`}
  `.execute(trx);
}

/**
 * Marks the spans of agents whose held passages are about to be rejected and that had no change accepted: rejected passages
 * leave no row. Null: all agents of the batch but the excepted.
 * Locks: the spans; the caller holds the batch. Index: `cursor_span_by_batch`, `passage_by_batch`, keys of `held_change`.
 */
export async function rejectCursorSpans(
  trx: Tx,
  batchId: string,
  agentIds: readonly string[] | null,
  exceptAgentIds: readonly string[] = [],
): Promise<void> {
  await sql`
    update cursor_span s set reverted_at = ${NOW}
     where s.batch_id = ${batchId} and s.reverted_at is null
       and ${agentIds === null ? sql`true` : sql`s.agent_id = any(${uuidArray(agentIds)}::uuid[])`}
       and not s.agent_id = any(${uuidArray(exceptAgentIds)}::uuid[])
       and exists (select from passage p
                    where p.batch_id = s.batch_id and p.agent_id = s.agent_id and p.held_by_batch_id is not null)
       and not exists (select from held_change h
                        where h.batch_id = s.batch_id and h.agent_id = s.agent_id and h.state = 'accepted')
  `.execute(trx);
}
