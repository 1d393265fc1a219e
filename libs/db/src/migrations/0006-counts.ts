import { sql, type Kysely } from 'kysely';

/** What requests say of messages and passages that tools can reach. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- Whether its requests say how much the searches of its tools could find.
alter table definition add column shows_counts boolean not null default false;
update definition d set shows_counts = true
 where exists (select from json_array_elements(d.tools) t
                where t->>'kind' = 'memory'
                  and t->>'name' in ('archival_memory_insert', 'archival_memory_search', 'conversation_search'));

-- The passages of its agent when the step was sealed, and their commonest tags; null, both: its request tells no counts.
alter table step add column passages integer check (passages >= 0), add column passage_tags text[],
  add constraint step_counts check ((passages is null) = (passage_tags is null));
`,
    )
    .execute(db);
}
