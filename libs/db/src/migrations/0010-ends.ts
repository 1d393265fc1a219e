import { sql, type Kysely } from 'kysely';

/** The end of a run changes no index: what says that it is open, or holds its conversation, is in none (ADR 0025). */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- In the order in which everybody locks them.
lock table conversation, run in access exclusive mode;

-- An update that changes what an index or its predicate names writes to every index of the table.
drop index run_open;
drop index run_queued;

-- Few runs have a deadline: for the others this is null before and after their end, and the end is HOT. Written by commits:
-- a generated column's expression is parsed anew for every row of an update that does not touch what it is made of.
alter table run add column overdue_from timestamptz;
update run set overdue_from = deadline_at where deadline_at is not null and ended_at is null;
drop index run_by_deadline;
alter table run add constraint run_overdue
  check (overdue_from is not distinct from case when ended_at is null then deadline_at end);

create index run_queued on run (conversation_id, created_at, id) where started_at is null;
create index run_by_deadline on run (overdue_from) where overdue_from is not null;

-- A run names its conversation, and takes no other: that it holds one at most needs no index, and taking and freeing are HOT.
drop index conversation_held_once;
`,
    )
    .execute(db);
}
