import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/** A session of a browser, or a link that makes one. */
export interface NewSession {
  /** SHA-256 of the secret. */
  readonly hash: Buffer;
  readonly project_id: string;
  readonly kind: 'browser' | 'link';
  /** SHA-256 of the API key. */
  readonly key_hash: Buffer;
  readonly lifetime_ms: number;
}

/** Expired sessions that a start removes. */
const REMOVED_MAX = 100;

/** Stores a session, removes some expired ones, and returns the time of its end. Index: `session_by_expiry`. */
export async function startSession(trx: Tx, session: NewSession): Promise<Date> {
  await sql`
    delete from session where hash in (
      select hash from session where expires_at < app_now() order by expires_at limit ${REMOVED_MAX} for update skip locked)
  `.execute(trx);
  const { rows } = await sql<{ expires_at: Date }>`
    insert into session (hash, project_id, kind, key_hash, expires_at)
    values (${session.hash}, ${session.project_id}::uuid, ${session.kind}, ${session.key_hash}, app_now() + interval '1 ms' * ${session.lifetime_ms}::bigint)
    returning expires_at
  `.execute(trx);
  const [row] = rows;
  if (row === undefined) throw new Error('The session was not stored.');
  return row.expires_at;
}
