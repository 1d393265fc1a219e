import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../../connect.ts';

/** The batch that a request made under a key. */
export interface IdempotentBatch {
  readonly batch_id: string;
  readonly request_sha256: string;
}

/**
 * What a key made no longer than `maxAgeMinutes` ago, or null. To act on it, hold `lockIdempotencyKey`. Index: primary key.
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
