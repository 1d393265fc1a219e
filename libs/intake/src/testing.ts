/** Helper of tests and proofs. */
import { SHIPPED_PRICES } from '@nightshift/agent-core';
import { DEFAULT_PROJECT_ID, inTransaction, readNow, type Database } from '@nightshift/db';
import { prepareBatch } from './prepare-batch.ts';
import type { BatchRequest } from './request.ts';
import { storeBatch } from './store-batch.ts';

/** Stores the batch of a body, as the API does, and returns its id. */
export async function storeBody(db: Database, body: BatchRequest): Promise<string> {
  const prepared = await prepareBatch(body, () => undefined);
  return inTransaction(db, async (trx) => {
    const settings = { now: await readNow(trx), prices: SHIPPED_PRICES, idempotency: null };
    return (await storeBatch(trx, DEFAULT_PROJECT_ID, prepared, settings)).batch_id;
  });
}
