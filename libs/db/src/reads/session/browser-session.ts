import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Reads the end of a browser's session; null if it has ended, or if its key is another. Index: primary key. */
export async function readBrowserSession(db: Database, hash: Buffer, keyHash: Buffer): Promise<Date | null> {
  const { rows } = await sql<{ expires_at: Date }>`
    select expires_at from session
     where hash = ${hash} and kind = 'browser' and key_hash = ${keyHash} and expires_at > app_now()
  `.execute(db);
  return rows[0]?.expires_at ?? null;
}
