import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/**
 * Serializes requests with the same idempotency key until the transaction ends, by an advisory lock, since the key has no
 * row yet.
 * Keys with the same hash wait needlessly, which costs only time. Take it before any row lock, and read the key in a later
 * statement.
 */
export async function lockIdempotencyKey(trx: Tx, projectId: string, key: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`${projectId} ${key}`}, 7202))`.execute(trx);
}
