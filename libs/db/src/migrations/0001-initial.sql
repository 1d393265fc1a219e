-- The schema. Checks tie each state to the columns it must carry. Hot tables (run, step, message, tool_call) have no
-- foreign keys: look-ups and row locks for them cost more than the write; the auditor checks these references.

-- The one clock. Tests move it with: set nightshift.now = '<timestamp>'.
create function app_now() returns timestamptz language sql volatile parallel safe as
$$ select coalesce(nullif(current_setting('nightshift.now', true), '')::timestamptz, clock_timestamp()) $$;

create table project (
  id uuid primary key,
  name text not null,
  created_at timestamptz not null default app_now()
);
insert into project (id, name) values ('00000000-0000-4000-8000-000000000000', 'default');


-- ---------- Catalog: agents, tools, definitions ----------

-- The fillfactor leaves room for the two updates of a run: taken at its start, freed at its end.
create table conversation (
  id uuid primary key,
  project_id uuid not null references project,
  -- The started run that holds it; null while it is free. Needs no index: a run names its conversation.
  run_id uuid,
  -- The first message that requests show.
  context_from_seq integer not null default 0 check (context_from_seq >= 0),
  created_at timestamptz not null default app_now(),
  -- The summary that requests show before the messages; null: none.
  summary_to_seq integer,
  -- The last message before the latest reset; 0: never reset. Summaries move context_from_seq too.
  reset_seq integer not null default 0,
  constraint conversation_summary_is_past check (summary_to_seq < context_from_seq),
  constraint conversation_reset_is_past check (reset_seq = 0 or reset_seq between 1 and context_from_seq - 1),
  -- A message's id is the conversation's with its number in the low 31 bits.
  constraint conversation_low_bits_free check (get_byte(uuid_send(id), 12) & 127 = 0
    and get_byte(uuid_send(id), 13) = 0 and get_byte(uuid_send(id), 14) = 0 and get_byte(uuid_send(id), 15) = 0)
) with (fillfactor = 50);

create table agent (
  id uuid primary key,
  project_id uuid not null references project,
  conversation_id uuid not null unique references conversation,
  name text not null,
  description text,
  agent_type text not null,
  system text not null,
  model text not null check (position('/' in model) > 1),
  model_settings json not null,
  tool_rules json not null,
  metadata json,
  tags text[] not null default '{}',
  timezone text not null default 'UTC',
  message_buffer_autoclear boolean not null default false,
  context_window_limit integer not null check (context_window_limit > 0),
  hidden boolean not null default false,
  -- Wire fields that are accepted, echoed and otherwise ignored.
  echoed json not null default '{}',
  created_at timestamptz not null default app_now(),
  updated_at timestamptz not null default app_now(),
  deleted_at timestamptz,
  -- How its conversation is kept short.
  compaction json not null default '{"mode":"sliding_window","evict_ratio":0.3}',
  -- The shape of its runs' results; null: any.
  result_format json,
  -- True for a deleted agent whose open runs still need its blocks; the sweep detaches them later.
  keeps_blocks boolean not null default false
);
create index agent_by_age on agent (project_id, created_at, id) where deleted_at is null;
create index agent_by_name on agent (project_id, name) where deleted_at is null;
create index agent_by_tag on agent using gin (tags) where deleted_at is null;
create index agent_keeping_blocks on agent (id) where keeps_blocks;

create table tool (
  id uuid primary key,
  project_id uuid not null references project,
  name text not null check (name ~ '^[a-zA-Z0-9_-]{1,64}$'),
  kind text not null check (kind in ('memory','module','client','finish')),
  tool_type text not null,
  description text not null,
  input_schema json not null,
  side_effects text not null check (side_effects in ('none', 'idempotent', 'once')),
  return_char_limit integer not null check (return_char_limit between 1 and 1000000),
  timeout_ms integer not null check (timeout_ms between 1 and 3600000),
  requires_approval boolean not null default false,
  source_type text not null,
  source_code text,
  tags text[] not null default '{}',
  metadata json not null default '{}',
  created_at timestamptz not null default app_now(),
  updated_at timestamptz not null default app_now(),
  unique (project_id, name)
);
create index tool_by_age on tool (project_id, created_at, id);

create table agent_tool (
  agent_id uuid not null references agent on delete cascade,
  tool_id uuid not null references tool on delete cascade,
  project_id uuid not null references project,
  position integer not null,
  primary key (agent_id, tool_id)
);
create index agent_tool_by_tool on agent_tool (tool_id);

-- An agent's part of its requests, frozen at accept. The id is the head of the content's SHA-256.
create table definition (
  id uuid primary key,
  project_id uuid not null references project,
  agent_type text not null,
  system text not null,
  model text not null,
  model_settings json not null,
  tool_rules json not null,
  tools json not null,
  created_at timestamptz not null default app_now(),
  -- The JSON Schema of its runs' results, as {"schema": …}.
  result_format json,
  context_window_limit integer not null default 128000 check (context_window_limit > 0),
  compaction json not null default '{"mode":"sliding_window","evict_ratio":0.3}',
  -- Whether its requests say how many messages and passages the search tools can reach.
  shows_counts boolean not null default false
);


-- ---------- Batch ----------

create table batch (
  id uuid primary key,
  project_id uuid not null references project,
  state text not null check (state in ('receiving','running','paused','cancelling','completed','cancelled','failed')),
  state_reason text,
  total integer not null check (total >= 0),
  metadata json,
  callback_url text,
  callback_sent_at timestamptz,
  callback_status_code integer,
  callback_error text,
  callback_attempts smallint not null default 0,
  created_at timestamptz not null default app_now(),
  updated_at timestamptz not null default app_now(),
  cancel_requested_at timestamptz,
  completed_at timestamptz,
  next_due_at timestamptz,
  lease_owner text,
  lease_until timestamptz not null default '-infinity',
  lease_epoch integer not null default 0,
  takeovers integer not null default 0,
  -- Whether its changes to memory take effect at once or are held for review.
  apply text not null default 'auto' constraint batch_apply check (apply in ('auto', 'review')),
  -- True for a batch with a cap, its own or of a run: it has a batch_budget row from accept on.
  budgeted boolean not null default false,
  constraint batch_ended check ((state in ('completed','cancelled','failed')) = (completed_at is not null)),
  constraint batch_paused check (state <> 'paused' or state_reason is not null),
  constraint batch_cancelling check (state not in ('cancelling','cancelled') or cancel_requested_at is not null)
);
create index batch_by_age on batch (project_id, created_at, id);
create index batch_due on batch (next_due_at) where next_due_at is not null;
create index batch_not_due on batch (id) where next_due_at is null and state in ('running', 'paused', 'cancelling');
create index batch_open on batch (state) where completed_at is null;

-- Counts of a batch, spread over a few slots so that commits of one batch seldom wait for each other.
create table batch_tally (
  batch_id uuid not null references batch on delete cascade,
  slot smallint not null,
  project_id uuid not null references project,
  -- Runs that wait for their conversation now.
  queued integer not null default 0,
  completed integer not null default 0,
  failed integer not null default 0,
  cancelled integer not null default 0,
  expired integer not null default 0,
  steps integer not null default 0,
  tool_calls integer not null default 0,
  -- Failed and unknown calls of steps that are done.
  failed_tool_calls integer not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_write_5m_tokens bigint not null default 0,
  cache_write_1h_tokens bigint not null default 0,
  cache_read_tokens bigint not null default 0,
  cost_nanousd bigint not null default 0,
  -- Runs that wait for their caller now.
  requires_action integer not null default 0,
  unpriced_steps integer not null default 0,
  primary key (batch_id, slot)
) with (fillfactor = 50);

-- Money and tokens of a batch with caps: its caps, spending, and reservations for requests without an answer.
-- Locked after the batch's runs, before conversations and its tally.
create table batch_budget (
  batch_id uuid primary key references batch on delete cascade,
  project_id uuid not null references project,
  -- Null: no cap of the batch; then one of its runs has one.
  max_cost_nanousd bigint check (max_cost_nanousd > 0),
  max_output_tokens bigint check (max_output_tokens > 0),
  spent_nanousd bigint not null default 0 check (spent_nanousd >= 0),
  spent_output_tokens bigint not null default 0 check (spent_output_tokens >= 0),
  reserved_nanousd bigint not null default 0 check (reserved_nanousd >= 0),
  reserved_output_tokens bigint not null default 0 check (reserved_output_tokens >= 0),
  -- open: no ready run waits for room outside a chunk. short: some wait. freed: some wait and a reservation was released
  -- since; the sweep queues them again.
  room text not null default 'open' check (room in ('open','short','freed'))
);
create index batch_budget_freed on batch_budget (batch_id) where room = 'freed';

create table idempotency_key (
  project_id uuid not null references project,
  key text not null check (length(key) between 1 and 255),
  request_sha256 text not null,
  batch_id uuid not null references batch,
  created_at timestamptz not null default app_now(),
  -- Whether a retry created the batch: a delayed first request then finds it.
  by_retry boolean not null default false,
  primary key (project_id, key)
);
create index idempotency_key_by_age on idempotency_key (created_at);

create table schedule (
  id uuid primary key,
  project_id uuid not null references project,
  name text not null,
  cron text not null,
  time_zone text not null,
  template json not null,
  state text not null check (state in ('active','paused')),
  state_reason text,
  next_due_at timestamptz,
  created_at timestamptz not null default app_now(),
  updated_at timestamptz not null default app_now(),
  constraint schedule_due check ((state = 'active') = (next_due_at is not null)),
  unique (project_id, name)
);

create table tick (
  schedule_id uuid not null references schedule,
  due_at timestamptz not null,
  project_id uuid not null references project,
  batch_id uuid references batch,
  outcome text not null check (outcome in ('started','skipped','missed')),
  created_at timestamptz not null default app_now(),
  primary key (schedule_id, due_at),
  constraint tick_started check ((outcome = 'started') = (batch_id is not null))
);


-- ---------- Memory ----------

create table block (
  id uuid primary key,
  project_id uuid not null references project,
  label text not null,
  head_revision integer not null check (head_revision >= 1),
  metadata json not null default '{}',
  tags text[] not null default '{}',
  is_template boolean not null default false,
  hidden boolean not null default false,
  created_at timestamptz not null default app_now(),
  updated_at timestamptz not null default app_now(),
  -- A deleted block belongs to no agent; its revisions stay for the requests that showed them.
  deleted_at timestamptz,
  -- Applies when a tool call writes a block that has changed since its request was made.
  conflict_policy text not null default 'merge'
    constraint block_conflict_policy check (conflict_policy in ('reject', 'last_write', 'merge')),
  -- Set for a draft: the changes of one agent in a batch under review, as a copy of a block or a new block. A draft is
  -- created deleted; only requests of that agent's runs in that batch show it, in place of the original.
  held_by_batch_id uuid references batch,
  constraint block_held check (held_by_batch_id is null or deleted_at is not null),
  unique (id, label)
);
create index block_by_age on block (project_id, created_at, id) where deleted_at is null;
create index block_by_label on block (project_id, label) where deleted_at is null;

-- Everything of a block that a request shows; a row per write, never changed.
create table block_revision (
  block_id uuid not null references block on delete cascade,
  revision integer not null check (revision >= 1),
  project_id uuid not null references project,
  description text,
  value text not null,
  char_limit integer not null check (char_limit > 0),
  read_only boolean not null,
  -- The revision that the writer had seen; null for the first.
  based_on integer check (based_on < revision),
  -- The writer: a tool call of a run, or an API request (all four null).
  batch_id uuid,
  run_id uuid,
  step_number integer,
  tool_use_id text,
  created_at timestamptz not null default app_now(),
  -- How a tool call's write met the block: unchanged since its request, merged with other writes, or overwriting them.
  resolution text constraint block_revision_resolution check (resolution in ('clean', 'merged', 'overwrote')),
  primary key (block_id, revision),
  constraint block_revision_first check ((revision = 1) = (based_on is null)),
  constraint block_revision_writer check (num_nulls(batch_id, run_id, step_number, tool_use_id) in (0, 4)),
  constraint block_revision_resolved check ((resolution is null) = (run_id is null))
);
create index block_revision_by_batch on block_revision (batch_id, block_id, revision) where batch_id is not null;

create table agent_block (
  agent_id uuid not null references agent on delete cascade,
  block_id uuid not null,
  -- Follows the block's label, so that an agent cannot hold two blocks of one label.
  label text not null,
  project_id uuid not null references project,
  position integer not null,
  primary key (agent_id, block_id),
  -- Deferred only where one commit relabels several blocks, which may swap their labels.
  unique (agent_id, label) deferrable initially immediate,
  foreign key (block_id, label) references block (id, label) on update cascade on delete cascade
);
create index agent_block_by_block on agent_block (block_id);

-- Changes of tool calls to blocks besides their text.
create table block_event (
  project_id uuid not null references project,
  block_id uuid not null references block on delete cascade,
  agent_id uuid not null references agent,
  kind text not null check (kind in ('created', 'detached', 'renamed')),
  label text not null,
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

-- Changes of a batch under review; a row per agent and block.
create table held_change (
  batch_id uuid not null references batch,
  agent_id uuid not null references agent,
  -- The block to change; for a new block the draft itself.
  block_id uuid not null references block,
  project_id uuid not null references project,
  draft_id uuid not null unique references block,
  kind text not null check (kind in ('revised', 'created', 'detached', 'dropped')),
  -- The block's revision and label when its first change was made; null for a new block.
  base_revision integer,
  base_label text,
  state text not null default 'held' check (state in ('held', 'accepted', 'rejected')),
  -- The last call that created, renamed or detached the block; revisions of the draft name their own writers.
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

-- Archival memory of agents.
create table passage (
  id uuid primary key,
  project_id uuid not null references project,
  agent_id uuid not null references agent,
  content text not null,
  tags text[] not null default '{}',
  -- The content's words, for searches.
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


-- ---------- Run ----------

create table run (
  id uuid primary key,
  project_id uuid not null,
  batch_id uuid not null,
  agent_id uuid not null,
  conversation_id uuid not null,
  definition_id uuid not null,
  -- Place in its batch, from 0.
  ordinal integer not null check (ordinal >= 0),
  -- The caller's own name for it.
  custom_id text,
  state text not null check (state in
    ('queued','ready','in_flight','acting','requires_action','completed','failed','cancelled','expired')),
  stop_reason text check (stop_reason in ('end_turn','tool_rule','max_steps','max_tokens','stop_sequence',
    'refusal','budget_exceeded','loop_detected','context_overflow','no_valid_tools','invalid_request','provider_error',
    'unusable_answer','expired','cancelled','deadline','poison')),
  error json,
  max_steps integer not null check (max_steps between 1 and 65535),
  -- The step to be sent next (ready), under way, or last (ended).
  step_number integer not null default 1,
  attempt smallint not null default 1 check (attempt between 1 and 255),
  -- Failed attempts of that step; an attempt that the provider never accepted is not counted.
  failures smallint not null default 0,
  -- Doublings of max_output_tokens granted to the current step after an unfinished tool call.
  token_boost smallint not null default 0,
  -- Its first and last message in the conversation; null until it has started.
  first_seq integer,
  last_seq integer,
  created_at timestamptz not null default app_now(),
  started_at timestamptz,
  ended_at timestamptz,
  -- Input of the tool rules and the loop check: its calls, prints of its last steps, re-asks in a row. Bounded in size.
  trail json,
  -- Its typed result, or the input of the tool 'finish'.
  result json,
  -- It takes no step from this time on.
  deadline_at timestamptz,
  -- Steps that summarised; they do not count towards max_steps.
  summary_steps integer not null default 0 check (summary_steps >= 0),
  -- The last message that the step under way summarises; has no meaning unless the run is in_flight.
  summarises_to_seq integer,
  max_cost_nanousd bigint check (max_cost_nanousd > 0),
  max_output_tokens bigint check (max_output_tokens > 0),
  -- The deadline of an open run. Written by commits: Postgres parses a generated column's expression for every updated row.
  overdue_from timestamptz,
  constraint run_low_bits_free check
    (get_byte(uuid_send(id), 13) = 0 and get_byte(uuid_send(id), 14) = 0 and get_byte(uuid_send(id), 15) = 0),
  constraint run_steps_bounded check (step_number between 1 and max_steps + summary_steps),
  constraint run_ended check ((state in ('completed','failed','cancelled','expired')) = (ended_at is not null)
    and (ended_at is not null) = (stop_reason is not null)),
  constraint run_failed_says_why check (state <> 'failed' or error is not null),
  constraint run_started check (
    (state = 'queued' and num_nonnulls(first_seq, last_seq, started_at) = 0)
    or (state in ('failed','cancelled') and num_nonnulls(first_seq, last_seq, started_at) in (0, 3))
    or (state <> 'queued' and num_nonnulls(first_seq, last_seq, started_at) = 3)),
  constraint run_overdue check (overdue_from is not distinct from case when ended_at is null then deadline_at end),
  unique (batch_id, ordinal)
) with (fillfactor = 30);
-- No index depends on a column that every step or every end changes: these updates stay HOT (ADR 0025). Runs that need work
-- are found through run_chunk and provider_batch.
create index run_queued on run (conversation_id, created_at, id) where started_at is null;
create index run_by_deadline on run (overdue_from) where overdue_from is not null;
create index run_by_agent on run (agent_id, created_at, id);
create index run_by_age on run (project_id, created_at, id);
create unique index run_by_custom_id on run (batch_id, custom_id) where custom_id is not null;

-- The input of a run that waits for its conversation; moved there when the run starts.
create table queued_input (
  run_id uuid primary key references run on delete cascade,
  project_id uuid not null references project,
  messages json not null
);

-- Runs that wait for the same work and are claimed together: 'ready' for a step to be sent, 'tools' for calls to be carried
-- out. A row is inserted with the move of its runs into that state, and deleted with their move out. The lease is
-- here, never on a run or step.
create table run_chunk (
  id uuid primary key,
  project_id uuid not null references project,
  kind text not null check (kind in ('ready','tools')),
  run_ids uuid[] not null check (cardinality(run_ids) between 1 and 10000),
  created_at timestamptz not null default app_now(),
  failures smallint not null default 0,
  next_due_at timestamptz not null,
  lease_owner text,
  lease_until timestamptz not null default '-infinity',
  lease_epoch integer not null default 0,
  takeovers integer not null default 0
);
create index run_chunk_due on run_chunk (kind, next_due_at);

create table step (
  project_id uuid not null,
  run_id uuid not null,
  number integer not null,
  attempt smallint not null,
  provider_batch_id uuid not null,
  ordinal integer not null,
  state text not null check (state in ('sealed','answered','done','lost','errored','expired','canceled')),
  -- What the request shows: messages of the conversation, and blocks at their revisions.
  context_from_seq integer not null,
  context_to_seq integer not null,
  block_ids uuid[] not null,
  block_revisions integer[] not null,
  max_tokens integer not null,
  stop_reason text,
  model text,
  provider_message_id text,
  input_tokens integer not null default 0 check (input_tokens >= 0),
  output_tokens integer not null default 0 check (output_tokens >= 0),
  cache_write_5m_tokens integer not null default 0 check (cache_write_5m_tokens >= 0),
  cache_write_1h_tokens integer not null default 0 check (cache_write_1h_tokens >= 0),
  cache_read_tokens integer not null default 0 check (cache_read_tokens >= 0),
  -- Null: the model that answered has no price.
  cost_nanousd bigint default 0 check (cost_nanousd >= 0),
  error json,
  sealed_at timestamptz not null,
  -- When its answer was applied. At most one attempt of a number is: message_answer_once.
  applied_at timestamptz,
  ended_at timestamptz,
  -- Its request asks for a summary of the messages from context_from_seq to context_to_seq.
  is_summary boolean not null default false,
  -- The summary that its request shows or extends.
  summary_to_seq integer,
  -- The answer's token limit where the window leaves fewer than max_tokens.
  max_tokens_fitted integer,
  -- Reserved in batch_budget; both null: its batch has no cap.
  reserved_nanousd bigint check (reserved_nanousd >= 0),
  reserved_output_tokens integer,
  -- Its agent's passages at sealing, and their most frequent tags; both null: the request shows no counts.
  passages integer check (passages >= 0),
  passage_tags text[],
  -- Labels of block_ids: revisions keep no label. Null: no blocks.
  block_labels text[],
  primary key (run_id, number, attempt),
  constraint step_applied check ((state in ('answered','done')) = (applied_at is not null)),
  constraint step_answered check (state not in ('answered','done') or stop_reason is not null),
  constraint step_ended check ((state in ('sealed','answered')) = (ended_at is null)),
  constraint step_error check (state <> 'errored' or error is not null),
  constraint step_max_tokens_fitted check (max_tokens_fitted between 1 and max_tokens),
  constraint step_reserved check ((reserved_nanousd is null) = (reserved_output_tokens is null)),
  constraint step_counts check ((passages is null) = (passage_tags is null))
) with (fillfactor = 35);
create unique index step_by_provider_batch on step (provider_batch_id, ordinal);

create table message (
  project_id uuid not null,
  conversation_id uuid not null,
  seq integer not null check (seq between 0 and 16777215),
  run_id uuid,
  step_number integer,
  role text not null check (role in ('user','assistant','system')),
  -- The content array as it came; a JSON string is a wrapped array (see toStorable).
  content json not null,
  -- False for messages that requests must not show: a refusal, an answer cut off inside a call.
  shown boolean not null default true,
  otid text,
  name text,
  created_at timestamptz not null default app_now(),
  primary key (conversation_id, seq)
);
-- At most one attempt of a step is applied. On messages, which are written once: an index over step.applied_at would keep
-- every update of a step from being HOT.
create unique index message_answer_once on message (run_id, step_number) where role = 'assistant' and step_number is not null;

-- Summaries of messages that requests no longer show; a row per compaction, never changed. A request shows at most one.
create table conversation_summary (
  conversation_id uuid not null references conversation,
  -- The last message it replaces; it replaces all earlier messages too.
  to_seq integer not null check (to_seq >= 1),
  project_id uuid not null references project,
  -- Messages it replaces, those of earlier summaries included.
  hidden integer not null check (hidden >= 1),
  summary text not null check (summary <> ''),
  -- The step whose answer it is.
  run_id uuid not null,
  step_number integer not null,
  created_at timestamptz not null default app_now(),
  primary key (conversation_id, to_seq),
  unique (run_id, step_number)
);

create table tool_call (
  project_id uuid not null,
  run_id uuid not null,
  step_number integer not null,
  call_index smallint not null,
  tool_use_id text not null,
  tool_name text not null,
  kind text not null check (kind in ('memory','module','client','finish','rejected')),
  state text not null check (state in ('pending','running','succeeded','failed','unknown')),
  -- Its result until the message with all results of the step is written.
  held_result text,
  started_at timestamptz,
  ended_at timestamptz,
  duration_ms integer check (duration_ms >= 0),
  -- What only the caller can give: approval to carry it out, or its result.
  awaits text check (awaits in ('approval','answer')),
  -- The caller's answer, and its hash: distinguishes a repetition from a different answer.
  verdict text check (verdict in ('approved','denied','answered')),
  answer_sha256 text,
  primary key (run_id, step_number, call_index),
  constraint tool_call_ended check ((state in ('pending','running')) = (ended_at is null)),
  constraint tool_call_running check (state <> 'running' or started_at is not null),
  constraint tool_call_held check (held_result is null or state not in ('pending','running')),
  constraint tool_call_verdict check
    ((verdict is null) = (answer_sha256 is null) and (verdict is null or awaits is not null))
) with (fillfactor = 40);


-- ---------- Provider batch ----------

-- A key at the provider. Its lease allows one create request at a time.
create table credential (
  id uuid primary key,
  name text not null unique,
  project_id uuid not null references project,
  paused_until timestamptz,
  pause_reason text,
  -- Consecutive creates that the provider did not take or did not answer.
  failures smallint not null default 0,
  lease_owner text,
  lease_until timestamptz not null default '-infinity',
  lease_epoch integer not null default 0,
  -- Creates refused as bad since the last accepted create.
  refusals smallint not null default 0,
  -- Whether the simulator answers requests under it; null until a worker has said so.
  simulated boolean,
  -- The provider's clock minus the database's.
  clock_offset_ms bigint,
  clock_uncertainty_ms bigint,
  clock_measured_at timestamptz
);
insert into credential (id, name, project_id)
  values ('00000000-0000-4000-8000-000000000001', 'default', '00000000-0000-4000-8000-000000000000');

create table provider_batch (
  id uuid primary key,
  project_id uuid not null references project,
  credential text not null references credential (name),
  state text not null check (state in
    ('building','submitting','submitted','ended','ingested','unknown','rejected','cancelling','orphan_paid')),
  -- Names one submission in every custom_id; replaced before anything is sent a second time.
  nonce text not null unique check (nonce ~ '^[a-z0-9]{6,16}$'),
  submission smallint not null default 1,
  request_count integer not null check (request_count >= 0),
  body_bytes bigint,
  body_sha256 text,
  provider_id text unique,
  submit_started_at timestamptz,
  submitted_at timestamptz,
  expires_at timestamptz,
  ended_at timestamptz,
  ingested_at timestamptz,
  -- Since when the provider says that it does not know it.
  missing_since timestamptz,
  -- Searches for an unknown submission that found nothing.
  searches smallint not null default 0,
  -- Provider ids that were adopted and proved to belong to others.
  not_ours text[] not null default '{}',
  -- Passes over the result file, and lines refused because their step was applied before.
  streams smallint not null default 0,
  lines_refused integer not null default 0,
  failures smallint not null default 0,
  error json,
  created_at timestamptz not null default app_now(),
  next_due_at timestamptz,
  lease_owner text,
  lease_until timestamptz not null default '-infinity',
  lease_epoch integer not null default 0,
  takeovers integer not null default 0,
  -- Some requests with their sizes, [{run_id, number, attempt, model, bytes}]: their answers calibrate bytes per token.
  token_samples json,
  -- Consecutive holders that let their lease run out, since one gave it back or applied a line.
  crash_count smallint not null default 0,
  -- The request or line last tried alone after such crashes, and the consecutive crashes over it.
  suspect text,
  suspect_tries smallint not null default 0,
  -- Whether its holder, or the last one, has not begun to work on it: giving it back then keeps crash_count and suspect.
  untried boolean not null default false,
  -- The provider's time of the last write-ahead; null: not measured.
  provider_sent_at timestamptz,
  constraint provider_batch_written_ahead check (state not in ('submitting','submitted','ended','ingested','unknown','cancelling')
    or num_nulls(submit_started_at, body_bytes, body_sha256) = 0),
  constraint provider_batch_submitted check (state not in ('submitted','ended','ingested','cancelling')
    or num_nulls(provider_id, submitted_at) = 0),
  constraint provider_batch_unsent check (state not in ('building','submitting','unknown') or provider_id is null),
  constraint provider_batch_ended check (state not in ('ended','ingested') or ended_at is not null),
  constraint provider_batch_ingested check ((state = 'ingested') = (ingested_at is not null)),
  constraint provider_batch_due check
    ((state in ('ingested','rejected','orphan_paid')) = (next_due_at is null))
);
create index provider_batch_due on provider_batch (state, next_due_at) where next_due_at is not null;
create index provider_batch_by_age on provider_batch (created_at);

-- Submissions that were in doubt, watched for as long as the provider may still show a second batch of them, which is
-- cancelled and booked, never applied.
create table doubted_submission (
  nonce text primary key,
  project_id uuid not null references project,
  provider_batch_id uuid not null references provider_batch,
  -- 'proven': adopted, and a line or the provider's answer has shown that it is ours.
  outcome text not null check (outcome in ('adopted', 'withdrawn', 'proven')),
  request_count integer not null,
  submit_started_at timestamptz not null,
  watched_until timestamptz not null,
  provider_sent_at timestamptz
);
create index doubted_submission_watched on doubted_submission (watched_until);

-- Result lines that could not be applied, kept for a person to look at.
create table result_line (
  provider_batch_id uuid not null references provider_batch,
  line_number integer not null,
  project_id uuid not null references project,
  custom_id text,
  reason text not null check (reason in ('unreadable','unusable','too_long','foreign','duplicate','conflicting')),
  byte_length bigint not null,
  excerpt text not null,
  seen_at timestamptz not null default app_now(),
  -- Usage, model, message_id and stop_reason of the line; null: it has none.
  bill json,
  primary key (provider_batch_id, line_number)
);

-- Bytes per token of a model, learnt from answers.
create table token_calibration (
  -- The provider's name.
  model text primary key,
  project_id uuid not null references project,
  bytes_per_token double precision not null check (bytes_per_token > 0),
  samples integer not null check (samples >= 1),
  updated_at timestamptz not null default app_now()
);


-- ---------- Audit ----------

-- Findings of audits. The row is inserted when an audit begins, so that workers take turns.
create table audit_report (
  id uuid primary key,
  project_id uuid not null references project,
  started_at timestamptz not null default app_now(),
  finished_at timestamptz,
  violations json
);
create index audit_report_by_age on audit_report (started_at);
