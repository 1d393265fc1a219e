import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../../connect.ts';

/** The batch created by a request with a key. */
export interface IdempotentBatch {
  readonly batch_id: string;
  readonly request_sha256: string;
}

/**
 * Finds the batch created with a key at most `maxAgeMinutes` ago; null without one. Decisions about it need
 * `lockIdempotencyKey`. Index: primary key.
 */
export function findIdempotentBatch(
  db: Database,
  projectId: string,
  key: string,
  maxAgeMinutes: number,
): Promise<IdempotentBatch | null> {
  return find(
    db,
    projectId,
    key,
    sql`created_at > app_now() - ${maxAgeMinutes}::integer * interval '1 minute'`,
  );
}

/**
 * Finds the batch that a retry created with a key since a request arrived; null without one. Decisions about it need
 * `lockIdempotencyKey`. Index: primary key.
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
  condition: RawBuilder<SqlBool>,
): Promise<IdempotentBatch | null> {
  const found = await db
    .selectFrom('idempotency_key')
    .select(['batch_id', 'request_sha256'])
    .where('project_id', '=', projectId)
    .where('key', '=', key)
    .where(condition)
    .executeTakeFirst();
  return found ?? null;
}
