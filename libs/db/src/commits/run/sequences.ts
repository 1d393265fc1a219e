import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';
import { keepInputOf } from './keep-input.ts';

/** A run that waited for its conversation until now. */
export interface WaitedRun {
  readonly conversation_id: string;
  readonly run_id: string;
  readonly batch_id: string;
  readonly project_id: string;
}

/**
 * Cancels the waiting runs of isolated conversations whose last run did not end well, and returns them.
 * Locked runs are skipped: another commit ends them, or the sweep calls this again.
 * The caller holds the conversations.
 * Locks: the runs in id order. Index: `run_queued`.
 */
export async function cancelSequences(
  trx: Tx,
  conversationIds: readonly string[],
): Promise<readonly WaitedRun[]> {
  if (conversationIds.length === 0) return [];
  const { rows } = await sql<WaitedRun>`
    with rest as materialized (
      select id from run
       where conversation_id = any(${uuidArray(conversationIds)}::uuid[]) and started_at is null and ended_at is null
       order by id
         for no key update skip locked),
    ${keepInputOf('rest')}
    update run r set state = 'cancelled', stop_reason = 'cancelled', ended_at = app_now(), overdue_from = null
      from rest where r.id = rest.id
    returning r.conversation_id, r.id as run_id, r.batch_id, r.project_id
  `.execute(trx);
  return rows;
}

/** Hides the messages of earlier runs of the sequences from started runs. The caller holds the conversations. */
export async function openContextsAnew(trx: Tx, runIds: readonly string[]): Promise<void> {
  if (runIds.length === 0) return;
  await sql`
    update conversation c set context_from_seq = r.first_seq, summary_to_seq = null
      from run r where r.id = any(${uuidArray(runIds)}::uuid[]) and c.id = r.conversation_id and c.run_id = r.id
  `.execute(trx);
}
