import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/**
 * Makes requests of one idempotency key wait for each other, until the transaction ends. An advisory lock, because
 * the key has no row yet; two keys of one hash wait for each other needlessly, which costs time and nothing else.
 * Take it before any row lock. Read the key in a later statement.
 */
export async function lockIdempotencyKey(trx: Tx, projectId: string, key: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`${projectId} ${key}`}, 7202))`.execute(trx);
}
