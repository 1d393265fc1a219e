import type { JsonObject } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import type { WatchedSubmission } from '../../reads/provider-batch/watched-submissions.ts';

/**
 * Books a batch that the provider ran, or began to run, for a submission which another batch stands for. False when
 * it is booked already.
 */
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
  const { rows } = await sql`
    insert into provider_batch (id, project_id, credential, state, nonce, request_count, provider_id, error)
    values (${orphan.id}::uuid, ${orphan.of.project_id}::uuid, ${orphan.of.credential}, 'orphan_paid', ${orphan.nonce},
            ${orphan.of.request_count}, ${orphan.provider_id}, ${JSON.stringify(orphan.detail)}::json)
    on conflict (provider_id) do nothing
    returning 1
  `.execute(trx);
  return rows.length === 1;
}
