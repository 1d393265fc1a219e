import { sql, type Kysely } from 'kysely';

/** A conversation that nobody holds is in no index of holders, and has room for the two versions of a night (ADR 0024). */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
create unique index conversation_held_once on conversation (run_id) where run_id is not null;
alter table conversation drop constraint conversation_run_id_key;
alter table conversation set (fillfactor = 50);
`,
    )
    .execute(db);
}
