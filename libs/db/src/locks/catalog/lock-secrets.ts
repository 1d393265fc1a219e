import type { Tx } from '../../connect.ts';
import type { SealedSecret } from '../../reads/catalog/secrets.ts';

/** Locks up to `limit` secrets of other keys until the transaction ends. Locks: secrets by place. Index: `secret_place`. */
export async function lockSecretsToRotate(
  trx: Tx,
  keyId: string,
  limit: number,
): Promise<readonly SealedSecret[]> {
  return trx
    .selectFrom('secret')
    .select(['project_id', 'agent_id', 'name', 'key_id', 'nonce', 'ciphertext'])
    .where('key_id', '!=', keyId)
    .orderBy('project_id')
    .orderBy('agent_id')
    .orderBy('name')
    .limit(limit)
    .forNoKeyUpdate()
    .execute();
}
