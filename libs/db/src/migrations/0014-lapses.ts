import { sql, type Kysely } from 'kysely';

/** What ends whoever works on a provider batch is seen, and dealt with, before it has ended every worker. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- Holders that let their lease run out, one after the other, since one gave it back or applied a line; and, once some have,
-- the request or line that was tried alone last, and how many ended in a row while they tried it.
alter table provider_batch
  add column lapses smallint not null default 0,
  add column suspect text,
  add column suspect_tries smallint not null default 0;
`,
    )
    .execute(db);
}
