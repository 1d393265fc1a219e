import { sql, type Kysely } from 'kysely';

/** The end of a run changes no index: what says that it is open is in none (ADR 0025). */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- An update that changes what an index or its predicate names writes to every index of the table.
drop index run_open;
drop index run_queued;
drop index run_by_deadline;

-- Few runs have a deadline: for the others this is null before and after their end, and the end is HOT. Writes the table anew.
alter table run add column overdue_from timestamptz
  generated always as (case when ended_at is null then deadline_at end) stored;

create index run_queued on run (conversation_id, created_at, id) where started_at is null;
create index run_by_deadline on run (overdue_from) where overdue_from is not null;
`,
    )
    .execute(db);
}
