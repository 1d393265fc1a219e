import { sql, type Kysely } from 'kysely';

/**
 * A conversation knows up to where its agent was made to forget it: where its requests begin does not tell, because summaries
 * move that too. Resets of before this stay unknown; whoever means one resets the agent once more.
 */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- The last message before the latest reset; 0 for none.
alter table conversation
  add column reset_seq integer not null default 0,
  add constraint conversation_reset_is_past check (reset_seq = 0 or reset_seq between 1 and context_from_seq - 1);
`,
    )
    .execute(db);
}
