import { sql, type Kysely } from 'kysely';

/** Who answers under a credential is kept, so that a start with the other key hands nothing over that is under way. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- Whether the simulator answers what is under way; null where no worker has said so yet.
alter table credential add column simulated boolean;
`,
    )
    .execute(db);
}
