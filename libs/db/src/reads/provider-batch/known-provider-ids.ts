import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/**
 * Reads which provider ids belong to a row, or were proved not to belong to `seekerId`; another row may still own the
 * latter.
 */
export async function readKnownProviderIds(
  db: Database,
  providerIds: readonly string[],
  seekerId: string | null = null,
): Promise<ReadonlySet<string>> {
  if (providerIds.length === 0) return new Set();
  const { rows } = await sql<{ provider_id: string }>`
    select provider_id from provider_batch where provider_id = any(${providerIds}::text[])
    union
    select unnest(not_ours) as provider_id from provider_batch where not_ours && ${providerIds}::text[] and id = ${seekerId}::uuid
  `.execute(db);
  return new Set(rows.map((row) => row.provider_id));
}
