import { sql, type Kysely } from 'kysely';

/** Creates refused as bad are counted apart from those that came to nothing for any other reason. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- Creates that the provider refused as bad since the last that it took.
alter table credential add column refusals smallint not null default 0;
`,
    )
    .execute(db);
}
