import { sql, type Kysely } from 'kysely';

/** A provider batch that was given back before anything was tried keeps what is known of those that ended over it. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- Given back by somebody who had no chance to try it: lapses and suspect stand.
alter table provider_batch add column untried boolean not null default false;
`,
    )
    .execute(db);
}
