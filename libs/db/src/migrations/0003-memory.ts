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

-- Whether the changes that a batch makes to memory are in force at once, or held until somebody accepts them.
alter table batch add column apply text not null default 'auto'
  constraint batch_apply check (apply in ('auto', 'review'));

-- Set for a block that holds the changes of one agent in such a batch: a copy of another block, or one that is new. It is
-- born deleted, so that nobody has it; the requests of that agent's runs in that batch show it in place of the other.
alter table block add column held_by_batch_id uuid references batch;
alter table block add constraint block_held check (held_by_batch_id is null or deleted_at is not null);

-- The changes themselves, one row per agent and block.
create table held_change (
  batch_id uuid not null references batch,
  agent_id uuid not null references agent,
  -- The block that is to change; a new one is the holding block itself.
  block_id uuid not null references block,
  project_id uuid not null references project,
  draft_id uuid not null unique references block,
  kind text not null check (kind in ('revised', 'created', 'detached', 'dropped')),
  -- What the block was when its first change was worked out; null for a new one.
  base_revision integer,
  base_label text,
  state text not null default 'held' check (state in ('held', 'accepted', 'rejected')),
  -- The call that made, renamed or gave the block up last; its text names its own writer.
  run_id uuid not null,
  step_number integer not null,
  tool_use_id text not null,
  created_at timestamptz not null default app_now(),
  settled_at timestamptz,
  primary key (batch_id, agent_id, block_id),
  constraint held_change_base check ((kind in ('created', 'dropped')) = (base_revision is null)
    and (base_revision is null) = (base_label is null)),
  constraint held_change_settled check ((state = 'held') = (settled_at is null))
);
create index held_change_by_draft on held_change (batch_id, draft_id);

-- Archival memory: passages that an agent keeps beside its prompt.
create table passage (
  id uuid primary key,
  project_id uuid not null references project,
  agent_id uuid not null references agent,
  content text not null,
  tags text[] not null default '{}',
  -- The words of the content, for searches.
  words tsvector not null,
  batch_id uuid not null,
  run_id uuid not null,
  step_number integer not null,
  tool_use_id text not null,
  -- Set while its batch is under review: only runs of that batch find it.
  held_by_batch_id uuid references batch,
  created_at timestamptz not null default app_now()
);
create index passage_by_agent on passage (agent_id, created_at);
create index passage_by_batch on passage (batch_id);
`,
    )
    .execute(db);
}
