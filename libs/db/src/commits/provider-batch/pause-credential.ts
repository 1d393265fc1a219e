import { PAUSE_REASONS } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database, Tx } from '../../connect.ts';
import { AS_FIRST } from '../../fragments.ts';
import { HALT } from '../../reads/provider-batch/paused-credentials.ts';

/** Pauses a credential, held or not; a longer pause stays. */
export async function pauseCredential(
  db: Database,
  name: string,
  pauseMs: number,
  reason: string,
): Promise<void> {
  await sql`
    update credential
       set paused_until = app_now() + ${pauseMs}::float8 * interval '1 millisecond', pause_reason = ${reason}
     where name = ${name} and coalesce(paused_until, '-infinity') < app_now() + ${pauseMs}::float8 * interval '1 millisecond'
  `.execute(db);
}

/** Halts a credential until {@link resumeCredential}. */
export async function haltCredential(db: Database, name: string, why: string): Promise<void> {
  await db
    .updateTable('credential')
    .set({ paused_until: 'infinity', pause_reason: HALT + why })
    .where('name', '=', name)
    .execute();
}

/** Reasons of pauses that the provider asked for, which an operator cannot end. */
const KEPT_REASONS: readonly string[] = [PAUSE_REASONS.rate_limited, PAUSE_REASONS.overloaded];

/**
 * Ends the halt of a credential, or a pause that the provider did not ask for, and makes its waiting provider batches due.
 * Returns the reason of the pause; null, and changes nothing, without such a pause.
 * Locks: the credential, then those provider batches in id order. Index: `provider_batch_due`.
 */
export async function resumeCredential(trx: Tx, name: string): Promise<string | null> {
  const { rows } = await sql<{ reason: string }>`
    with paused ${AS_FIRST} (
      select id, coalesce(pause_reason, '') as reason from credential
       where name = ${name} and paused_until > app_now() and coalesce(pause_reason, '') <> all(${KEPT_REASONS}::text[])
         for no key update)
    update credential c set paused_until = null, pause_reason = null from paused p where c.id = p.id
    returning p.reason
  `.execute(trx);
  const [row] = rows;
  if (row === undefined) return null;
  // A separate statement: it sees provider batches put off by the previous holder of the lock.
  await sql`
    with waiting ${AS_FIRST} (
      select id from provider_batch
       where state = 'building' and next_due_at > app_now() and credential = ${name}
       order by id
         for no key update)
    update provider_batch p set next_due_at = app_now() from waiting w where p.id = w.id
  `.execute(trx);
  return row.reason;
}
