import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import type { SealedSecret } from '../../reads/catalog/secrets.ts';

/** Stores secrets, each at most once; replaces those of the same place. Locks: secrets by place. Index: `secret_place`. */
export async function putSecrets(trx: Tx, secrets: readonly SealedSecret[]): Promise<void> {
  if (secrets.length === 0) return;
  await sql`
    insert into secret (project_id, agent_id, name, key_id, nonce, ciphertext)
    select project_id, agent_id, name, key_id, nonce, ciphertext from ${source(secrets)}
    order by project_id, agent_id, name
    on conflict on constraint secret_place do update
       set key_id = excluded.key_id, nonce = excluded.nonce, ciphertext = excluded.ciphertext, updated_at = ${NOW}
  `.execute(trx);
}

/** Replaces the encryption of locked secrets whose values stay. Index: `secret_place`. */
export async function resealSecrets(trx: Tx, secrets: readonly SealedSecret[]): Promise<void> {
  if (secrets.length === 0) return;
  await sql`
    update secret s set key_id = d.key_id, nonce = d.nonce, ciphertext = d.ciphertext
      from ${source(secrets)}
     where s.project_id = d.project_id and s.agent_id is not distinct from d.agent_id and s.name = d.name
  `.execute(trx);
}

/** The secrets as a source `d`. */
function source(secrets: readonly SealedSecret[]): RawBuilder<unknown> {
  const column = <Name extends keyof SealedSecret>(name: Name): SealedSecret[Name][] =>
    secrets.map((secret) => secret[name]);
  return sql`unnest(${column('project_id')}::uuid[], ${column('agent_id')}::uuid[], ${column('name')}::text[],
    ${column('key_id')}::text[], ${column('nonce')}::bytea[], ${column('ciphertext')}::bytea[])
    as d (project_id, agent_id, name, key_id, nonce, ciphertext)`;
}
