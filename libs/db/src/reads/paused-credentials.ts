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

/** Milliseconds until the credential's pause is over, `msMax` at most; 0 when it is not paused. */
export async function readPauseMs(db: Database, name: string, msMax: number): Promise<number> {
  const { rows } = await sql<{ ms: number }>`
    select (extract(epoch from least(paused_until, now + ${msMax} * interval '1 millisecond') - now) * 1000)::float8 as ms
      from credential, app_now() as now where name = ${name} and paused_until > now
  `.execute(db);
  return rows[0]?.ms ?? 0;
}
