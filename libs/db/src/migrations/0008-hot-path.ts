import { sql, type Kysely } from 'kysely';

/** What every run and step writes, at the price of the write alone (ADR 0022). */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- Five look-ups and three row locks for every run that is accepted; commits keep runs whole, and the auditor checks it.
alter table run
  drop constraint run_project_id_fkey,
  drop constraint run_batch_id_fkey,
  drop constraint run_agent_id_fkey,
  drop constraint run_conversation_id_fkey,
  drop constraint run_definition_id_fkey;

-- That one attempt of a step at most is applied, its message says: it is written once, whereas an index over applied_at
-- kept every update of a step from being HOT.
create unique index message_answer_once on message (run_id, step_number) where role = 'assistant' and step_number is not null;
drop index step_applied_once;

alter table run set (fillfactor = 30);
alter table step set (fillfactor = 35);
alter table tool_call set (fillfactor = 40);
`,
    )
    .execute(db);
}
