import { sql } from 'kysely';
import type { Database } from '../connect.ts';

/** The batch that a request made under a key. */
export interface IdempotentBatch {
  readonly batch_id: string;
  readonly request_sha256: string;
}

/**
 * What a key made no longer than `maxAgeMinutes` ago, or null. To act on it, hold `lockIdempotencyKey`. Index: primary key.
 */
export async function findIdempotentBatch(
  db: Database,
  projectId: string,
  key: string,
  maxAgeMinutes: number,
): Promise<IdempotentBatch | null> {
  const { rows } = await sql<IdempotentBatch>`
    select batch_id, request_sha256 from idempotency_key
    where project_id = ${projectId} and key = ${key}
      and created_at > app_now() - ${maxAgeMinutes}::integer * interval '1 minute'
  `.execute(db);
  return rows[0] ?? null;
}
