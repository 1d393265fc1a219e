import type { JsonObject } from '@nightshift/agent-core';
import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../../connect.ts';

/** What a request with a key made. */
export interface IdempotentRequest {
  /** Null: it made something else. */
  readonly batch_id: string | null;
  /** Null: it made a batch. */
  readonly made: JsonObject | null;
  readonly request_sha256: string;
}

/**
 * Finds the request with a key that came at most `maxAgeMinutes` ago; null without one. Decisions about it need
 * `lockIdempotencyKey`. Index: primary key.
 */
export function findIdempotentRequest(
  db: Database,
  projectId: string,
  key: string,
  maxAgeMinutes: number,
): Promise<IdempotentRequest | null> {
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
): Promise<IdempotentRequest | null> {
  return find(db, projectId, key, sql`by_retry and created_at > ${arrivedAt}::timestamptz`);
}

async function find(
  db: Database,
  projectId: string,
  key: string,
  condition: RawBuilder<SqlBool>,
): Promise<IdempotentRequest | null> {
  const found = await db
    .selectFrom('idempotency_key')
    .select(['batch_id', 'made', 'request_sha256'])
    .where('project_id', '=', projectId)
    .where('key', '=', key)
    .where(condition)
    .executeTakeFirst();
  return found ?? null;
}
