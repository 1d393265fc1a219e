import type { JsonObject } from '@nightshift/agent-core';
import type { Tx } from '../../connect.ts';
import type { WatchedSubmission } from '../../reads/provider-batch/watched-submissions.ts';

/** Books an upstream batch that ran for a submission already answered by another batch. False if it is booked already. */
export async function commitOrphan(
  trx: Tx,
  orphan: {
    readonly id: string;
    readonly nonce: string;
    readonly provider_id: string;
    readonly of: Omit<WatchedSubmission, 'sent_at'>;
    readonly detail: JsonObject;
  },
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto('provider_batch')
    .values({
      id: orphan.id,
      project_id: orphan.of.project_id,
      credential: orphan.of.credential,
      state: 'orphan_paid',
      nonce: orphan.nonce,
      request_count: orphan.of.request_count,
      provider_id: orphan.provider_id,
      error: JSON.stringify(orphan.detail),
    })
    .onConflict((conflict) => conflict.column('provider_id').doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}
