import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../connect.ts';

/** The batch that a request made under a key. */
export interface IdempotentBatch {
  readonly batch_id: string;
  readonly request_sha256: string;
}

/** Which batch a repetition may be answered with. */
export interface Replay {
  readonly max_age_minutes: number;
  /** One whose cancellation has been asked for, too. */
  readonly cancelled: boolean;
}

/** What a key made that may be answered again, or null. To act on it, hold `lockIdempotencyKey`. Index: primary keys. */
export function findIdempotentBatch(
  db: Database,
  projectId: string,
  key: string,
  { max_age_minutes, cancelled }: Replay,
): Promise<IdempotentBatch | null> {
  return find(
    db,
    projectId,
    key,
    sql`created_at > app_now() - ${max_age_minutes}::integer * interval '1 minute'
      and (${cancelled}::boolean or not exists (
        select from batch b where b.id = batch_id and b.cancel_requested_at is not null))`,
  );
}

/**
 * What a retry made under a key since a request arrived, or null. To act on it, hold `lockIdempotencyKey`. Index: primary key.
 */
export function findBatchOfRetry(
  db: Database,
  projectId: string,
  key: string,
  arrivedAt: Date,
): Promise<IdempotentBatch | null> {
  return find(db, projectId, key, sql`by_retry and created_at > ${arrivedAt}::timestamptz`);
}

async function find(
  db: Database,
  projectId: string,
  key: string,
  condition: RawBuilder<unknown>,
): Promise<IdempotentBatch | null> {
  const { rows } = await sql<IdempotentBatch>`
    select batch_id, request_sha256 from idempotency_key
     where project_id = ${projectId} and key = ${key} and ${condition}
  `.execute(db);
  return rows[0] ?? null;
}
