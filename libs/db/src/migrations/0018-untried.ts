import { sql, type Kysely } from 'kysely';

/** A provider batch that was given back before anything was tried keeps what is known of those that ended over it. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- Whether its holder, or the last one, has not come to try it: then lapses and suspect stand when it gives it back.
alter table provider_batch add column untried boolean not null default false;
`,
    )
    .execute(db);
}
