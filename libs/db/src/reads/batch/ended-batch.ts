import type { JsonObject } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** The content of a callback about an ended batch. */
export interface EndedBatch {
  readonly id: string;
  readonly state: 'completed' | 'failed' | 'cancelled';
  readonly callback_url: string;
  readonly callback_attempts: number;
  readonly completed_at: Date;
  /** As submitted. */
  readonly metadata: JsonObject | null;
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly expired: number;
}

/** Reads the content of a claimed batch's callback; null when it has no callback. */
export async function readEndedBatch(db: Database, batchId: string): Promise<EndedBatch | null> {
  const { rows } = await sql<EndedBatch>`
    select b.id, b.state, b.callback_url, b.callback_attempts, b.completed_at, b.metadata, b.total,
           coalesce(sum(t.completed), 0)::int as completed, coalesce(sum(t.failed), 0)::int as failed,
           coalesce(sum(t.cancelled), 0)::int as cancelled, coalesce(sum(t.expired), 0)::int as expired
      from batch b left join batch_tally t on t.batch_id = b.id
     where b.id = ${batchId}::uuid and b.callback_url is not null and b.completed_at is not null
     group by b.id
  `.execute(db);
  return rows[0] ?? null;
}
