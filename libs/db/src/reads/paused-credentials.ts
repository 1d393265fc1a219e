import { sql } from 'kysely';
import type { Database } from '../connect.ts';

/** Credentials that rest or are halted, and why. `paused_until` is null for one that is halted until somebody acts. */
export interface PausedCredential {
  readonly name: string;
  readonly reason: string;
  readonly paused_until: Date | null;
}

export async function readPausedCredentials(db: Database): Promise<readonly PausedCredential[]> {
  const { rows } = await sql<PausedCredential>`
    select name, coalesce(pause_reason, '') as reason, case when isfinite(paused_until) then paused_until end as paused_until
      from credential where paused_until > app_now() order by name
  `.execute(db);
  return rows;
}
