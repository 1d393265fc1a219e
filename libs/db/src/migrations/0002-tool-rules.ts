import { sql, type Kysely } from 'kysely';

/** What the tool rules and the search for loops know of a run, its result, and calls that await the caller. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- What its next answer is judged by: its calls as the tool rules count them, prints of its last steps, re-asks in a
-- row. Null until it has done something. Bounded in size, and never part of an index: updates of runs stay HOT.
alter table run add column trail json;

-- What it came to: its typed result, or what it handed over with the tool 'finish'.
alter table run add column result json;
-- The JSON Schema of its runs' results, as {"schema": …}.
alter table definition add column result_format json;

alter table tool drop constraint tool_kind_check,
  add constraint tool_kind_check check (kind in ('memory','module','client','finish'));
alter table tool_call drop constraint tool_call_kind_check,
  add constraint tool_call_kind_check check (kind in ('memory','module','client','finish','rejected'));

-- From when on it takes no further step.
alter table run add column deadline_at timestamptz;
create index run_by_deadline on run (deadline_at) where deadline_at is not null and ended_at is null;

-- Runs that wait for their caller now.
alter table batch_tally add column requires_action integer not null default 0;

alter table tool_call
  -- What only the caller can give: leave to carry it out, or its result.
  add column awaits text check (awaits in ('approval','answer')),
  -- What the caller said, and a hash of it, so that a repetition is told from another answer.
  add column verdict text check (verdict in ('approved','denied','answered')),
  add column answer_sha256 text,
  add constraint tool_call_verdict check
    ((verdict is null) = (answer_sha256 is null) and (verdict is null or awaits is not null));
`,
    )
    .execute(db);
}
