import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Puts off the next look of a credential by `ms`, for calls beyond the first of a look. */
export async function chargeLooks(db: Database, credential: string, ms: number): Promise<void> {
  await sql`
    update credential set look_from = greatest(look_from, app_now()) + ${ms} * interval '1 millisecond'
     where name = ${credential}
  `.execute(db);
}
