import { ACCOUNT_TROUBLE, PAUSE_REASONS } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** A paused or halted credential. `paused_until` is null for a halt, which lasts until an operator resumes it. */
export interface PausedCredential {
  readonly name: string;
  readonly reason: string;
  readonly paused_until: Date | null;
}

/** Prefix of the reason of a halt. */
export const HALT = 'halted by the audit: ';

/** Every cause of a pause, for metrics: few words, and none from the provider. */
export const PAUSE_CAUSES = [
  ...(Object.keys(PAUSE_REASONS) as (keyof typeof PAUSE_REASONS)[]),
  'account',
  'halted',
  'other',
] as const;
export type PauseCause = (typeof PAUSE_CAUSES)[number];

/** Returns the cause of a reason; `other` for reasons of other releases. */
export function pauseCauseOf(reason: string): PauseCause {
  if (reason.startsWith(HALT)) return 'halted';
  if (reason.startsWith(ACCOUNT_TROUBLE)) return 'account';
  return (
    PAUSE_CAUSES.find((cause) => reason === PAUSE_REASONS[cause as keyof typeof PAUSE_REASONS]) ?? 'other'
  );
}

export async function readPausedCredentials(db: Database): Promise<readonly PausedCredential[]> {
  const { rows } = await sql<PausedCredential>`
    select name, coalesce(pause_reason, '') as reason, case when isfinite(paused_until) then paused_until end as paused_until
      from credential where paused_until > app_now() order by name
  `.execute(db);
  return rows;
}
