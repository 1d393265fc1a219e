import { sql, type Kysely } from 'kysely';

/** What the tool rules and the search for loops know of a run. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- What its next answer is judged by: its calls as the tool rules count them, prints of its last steps, re-asks in a
-- row. Null until it has done something. Bounded in size, and never part of an index: updates of runs stay HOT.
alter table run add column trail json;
`,
    )
    .execute(db);
}
