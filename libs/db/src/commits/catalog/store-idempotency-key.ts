import type { JsonObject } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { storableJson } from '../json-rows.ts';

/** A request with a key, which has made something else than a batch. */
export interface MadeOnce {
  readonly key: string;
  readonly request_sha256: string;
  readonly made: JsonObject;
}

/** Stores what a request with a key made. Replaces a key that has expired. Needs `lockIdempotencyKey`. */
export async function storeIdempotencyKey(
  trx: Tx,
  projectId: string,
  { key, request_sha256, made }: MadeOnce,
): Promise<void> {
  await sql`
    insert into idempotency_key (project_id, key, request_sha256, made)
    values (${projectId}, ${key}, ${request_sha256}, ${storableJson(made)}::json)
    on conflict (project_id, key) do update
      set request_sha256 = excluded.request_sha256, batch_id = null, made = excluded.made, created_at = excluded.created_at,
          by_retry = excluded.by_retry
  `.execute(trx);
}
