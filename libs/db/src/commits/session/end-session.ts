import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/** Ends a session, and tells whether it was valid. Two callers cannot both use a link. Index: primary key. */
export async function endSession(
  trx: Tx,
  {
    hash,
    kind,
    key_hash,
  }: { readonly hash: Buffer; readonly kind: 'browser' | 'link'; readonly key_hash: Buffer },
): Promise<boolean> {
  const { rows } = await sql<{ is_valid: boolean }>`
    delete from session where hash = ${hash} and kind = ${kind}
    returning expires_at > app_now() and key_hash = ${key_hash} as is_valid
  `.execute(trx);
  return rows[0]?.is_valid === true;
}
