import { sql, type Kysely } from 'kysely';

/** An agent may say what the results of its runs look like, where their requests do not. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- What results of its runs must look like, as the core reads it; null: anything.
alter table agent add column result_format json;
`,
    )
    .execute(db);
}
