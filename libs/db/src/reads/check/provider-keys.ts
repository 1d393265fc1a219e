import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** What workers last heard of a credential. */
export interface ProviderKey {
  readonly name: string;
  /** Null: it is not paused. */
  readonly pause_reason: string | null;
  /** Null for a pause without an end, and without a pause. */
  readonly paused_until: Date | null;
  /** Creates in a row that the provider did not take or did not answer. */
  readonly failures: number;
  /** When the provider last took a provider batch; null: never. */
  readonly last_accepted_at: Date | null;
  /** Null: no worker has said whether the simulator answers. */
  readonly is_simulated: boolean | null;
}

/** Reads the state of every credential, never a key. Index: `provider_batch_by_age`. */
export async function readProviderKeys(db: Database): Promise<readonly ProviderKey[]> {
  const { rows } = await sql<ProviderKey>`
    select c.name, case when c.paused_until > app_now() then coalesce(c.pause_reason, '') end as pause_reason,
           case when c.paused_until > app_now() and isfinite(c.paused_until) then c.paused_until end as paused_until,
           c.failures, c.simulated as is_simulated,
           (select p.submitted_at from (select submitted_at, credential from provider_batch order by created_at desc limit 1000) p
             where p.credential = c.name and p.submitted_at is not null limit 1) as last_accepted_at
      from credential c order by c.name
  `.execute(db);
  return rows;
}
