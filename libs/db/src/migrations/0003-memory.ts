import { sql, type Kysely } from 'kysely';

/** Memory that several write: what becomes of a conflict, how each write came about, and changes besides the text. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- What becomes of a tool call's write where somebody else has changed the block since the request was made.
alter table block add column conflict_policy text not null default 'merge'
  constraint block_conflict_policy check (conflict_policy in ('reject', 'last_write', 'merge'));

-- How a tool call's write came to its value: nobody else had written, both were merged, or the other's was written over.
alter table block_revision add column resolution text
  constraint block_revision_resolution check (resolution in ('clean', 'merged', 'overwrote'));
alter table block_revision add constraint block_revision_resolved check ((resolution is null) = (run_id is null));
drop index block_revision_by_batch;
create index block_revision_by_batch on block_revision (batch_id, block_id, revision) where batch_id is not null;

-- Deferred only where one commit gives several blocks new labels, which may swap them.
alter table agent_block drop constraint agent_block_agent_id_label_key;
alter table agent_block add constraint agent_block_agent_id_label_key unique (agent_id, label)
  deferrable initially immediate;

-- What tool calls did to blocks besides their text: made one, gave one up, gave one another label.
create table block_event (
  project_id uuid not null references project,
  block_id uuid not null references block on delete cascade,
  agent_id uuid not null references agent,
  kind text not null check (kind in ('created', 'detached', 'renamed')),
  label text not null,
  -- The label that it was given.
  new_label text,
  batch_id uuid not null,
  run_id uuid not null,
  step_number integer not null,
  -- Place among the events of the step.
  place smallint not null,
  tool_use_id text not null,
  created_at timestamptz not null default app_now(),
  primary key (run_id, step_number, place),
  constraint block_event_renamed check ((kind = 'renamed') = (new_label is not null))
);
create index block_event_by_batch on block_event (batch_id, created_at);
create index block_event_by_block on block_event (block_id, created_at);
`,
    )
    .execute(db);
}
