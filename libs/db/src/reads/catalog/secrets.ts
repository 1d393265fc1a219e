import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { anyText, UNMERGED } from '../../fragments.ts';
import { uuidArray } from '../../uuid-array.ts';

/** An encrypted secret. */
export interface SealedSecret {
  readonly project_id: string;
  /** Null: of all agents of the project. */
  readonly agent_id: string | null;
  readonly name: string;
  readonly key_id: string;
  readonly nonce: Buffer;
  /** With the authentication tag at its end. */
  readonly ciphertext: Buffer;
}

/** A secret of a project, without its value. */
export interface SecretRow {
  readonly name: string;
  readonly key_id: string;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** Reads the secrets of a project by name, without those of agents. Index: `secret_place`. */
export async function listSecrets(db: Database, projectId: string): Promise<readonly SecretRow[]> {
  return db
    .selectFrom('secret')
    .select(['name', 'key_id', 'created_at', 'updated_at'])
    .where('project_id', '=', projectId)
    .where('agent_id', 'is', null)
    .orderBy('name')
    .execute();
}

/** Reads the secrets with these names: of the project and of the agents. Index: `secret_place`. */
export async function readSecretsFor(
  db: Database,
  projectId: string,
  names: readonly string[],
  agentIds: readonly string[],
): Promise<readonly SealedSecret[]> {
  if (names.length === 0) return [];
  const { rows } = await sql<SealedSecret>`
    select s.project_id, s.agent_id, s.name, s.key_id, s.nonce, s.ciphertext
      from unnest(${uuidArray([...new Set(agentIds)])}::uuid[]) a (id),
           lateral (select * from secret
                     where project_id = ${projectId} and agent_id = a.id and name = ${anyText(names)} ${UNMERGED}) s
    union all
    select project_id, agent_id, name, key_id, nonce, ciphertext from secret
     where project_id = ${projectId} and agent_id is null and name = ${anyText(names)}
  `.execute(db);
  return rows;
}

/** Returns the names under which the project or an agent has a secret. Index: `secret_place`. */
export async function readKnownSecretNames(
  db: Database,
  projectId: string,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set();
  const rows = await db
    .selectFrom('secret')
    .select('name')
    .distinct()
    .where('project_id', '=', projectId)
    .where('name', '=', anyText(names))
    .execute();
  return new Set(rows.map(({ name }) => name));
}

/** Reads the ids of the keys that have encrypted stored secrets. Scans the table. */
export async function readSecretKeyIds(db: Database): Promise<readonly string[]> {
  const { rows } = await sql<{ key_id: string }>`select distinct key_id from secret order by key_id`.execute(
    db,
  );
  return rows.map(({ key_id }) => key_id);
}
