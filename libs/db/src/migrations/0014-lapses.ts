import { sql, type Kysely } from 'kysely';

/** What ends whoever works on a provider batch is seen, and dealt with, before it has ended every worker. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- Holders that let their lease run out, one after the other, since one gave it back or applied a line.
alter table provider_batch add column lapses smallint not null default 0;
`,
    )
    .execute(db);
}
