import { sql, type Kysely } from 'kysely';

/** Whether a retry made what a key names: a first try that comes to its turn after its own retry then finds it. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql`alter table idempotency_key add column by_retry boolean not null default false`.execute(db);
}
