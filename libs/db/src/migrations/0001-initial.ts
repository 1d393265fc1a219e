import { sql, type Kysely } from 'kysely';

/** The first schema. Constraints tie each state to what it must carry; hot tables carry no foreign keys. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- The one clock. Tests move it with: set nightshift.now = '<timestamp>'.
create function app_now() returns timestamptz language sql volatile parallel safe as
$$ select coalesce(nullif(current_setting('nightshift.now', true), '')::timestamptz, clock_timestamp()) $$;

create table project (
  id uuid primary key,
  name text not null,
  created_at timestamptz not null default app_now()
);
insert into project (id, name) values ('00000000-0000-4000-8000-000000000000', 'default');

create table conversation (
  id uuid primary key,
  project_id uuid not null references project,
  -- The run that holds it: the one started and not ended. Set when a run starts, given on or cleared when it ends;
  -- so its history is never written by two.
  run_id uuid unique,
  -- Requests show messages from here on.
  context_from_seq integer not null default 0 check (context_from_seq >= 0),
  created_at timestamptz not null default app_now(),
  -- Messages are numbered in the low 31 bits of the id.
  constraint conversation_low_bits_free check (get_byte(uuid_send(id), 12) & 127 = 0
    and get_byte(uuid_send(id), 13) = 0 and get_byte(uuid_send(id), 14) = 0 and get_byte(uuid_send(id), 15) = 0)
);

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
  -- Wire fields that are accepted and echoed and mean nothing here.
  echoed json not null default '{}',
  created_at timestamptz not null default app_now(),
  updated_at timestamptz not null default app_now(),
  deleted_at timestamptz
);
create index agent_by_age on agent (project_id, created_at, id) where deleted_at is null;
create index agent_by_name on agent (project_id, name) where deleted_at is null;
create index agent_by_tag on agent using gin (tags) where deleted_at is null;

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
  -- Deleted blocks belong to no agent; their revisions stay for the requests that showed them.
  deleted_at timestamptz,
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
  -- Who wrote it: a tool call of a run, or a request (all four null).
  batch_id uuid,
  run_id uuid,
  step_number integer,
  tool_use_id text,
  created_at timestamptz not null default app_now(),
  primary key (block_id, revision),
  constraint block_revision_first check ((revision = 1) = (based_on is null)),
  constraint block_revision_writer check (num_nulls(batch_id, run_id, step_number, tool_use_id) in (0, 4))
);
create index block_revision_by_batch on block_revision (batch_id) where batch_id is not null;

create table agent_block (
  agent_id uuid not null references agent on delete cascade,
  block_id uuid not null,
  -- Follows the block's label, so that an agent cannot hold two blocks of one label.
  label text not null,
  project_id uuid not null references project,
  position integer not null,
  primary key (agent_id, block_id),
  unique (agent_id, label),
  foreign key (block_id, label) references block (id, label) on update cascade on delete cascade
);
create index agent_block_by_block on agent_block (block_id);

create table tool (
  id uuid primary key,
  project_id uuid not null references project,
  name text not null check (name ~ '^[a-zA-Z0-9_-]{1,64}$'),
  kind text not null check (kind in ('memory', 'module', 'client')),
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

-- What requests are built from, frozen at accept. The id is the head of its content's SHA-256.
create table definition (
  id uuid primary key,
  project_id uuid not null references project,
  agent_type text not null,
  system text not null,
  model text not null,
  model_settings json not null,
  tool_rules json not null,
  tools json not null,
  created_at timestamptz not null default app_now()
);

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
  constraint batch_ended check ((state in ('completed','cancelled','failed')) = (completed_at is not null)),
  constraint batch_paused check (state <> 'paused' or state_reason is not null),
  constraint batch_cancelling check (state not in ('cancelling','cancelled') or cancel_requested_at is not null)
);
create index batch_by_age on batch (project_id, created_at, id);
create index batch_due on batch (next_due_at) where next_due_at is not null;

-- Counts of a batch in a few slots, so that commits of one batch seldom wait for each other. The auditor checks them.
create table batch_tally (
  batch_id uuid not null references batch on delete cascade,
  slot smallint not null,
  project_id uuid not null references project,
  completed integer not null default 0,
  failed integer not null default 0,
  cancelled integer not null default 0,
  expired integer not null default 0,
  steps integer not null default 0,
  tool_calls integer not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_write_5m_tokens bigint not null default 0,
  cache_write_1h_tokens bigint not null default 0,
  cache_read_tokens bigint not null default 0,
  cost_nanousd bigint not null default 0,
  primary key (batch_id, slot)
) with (fillfactor = 50);

create table run (
  id uuid primary key,
  project_id uuid not null references project,
  batch_id uuid not null references batch,
  agent_id uuid not null references agent,
  conversation_id uuid not null references conversation,
  definition_id uuid not null references definition,
  -- Place in its batch, from 0.
  ordinal integer not null check (ordinal >= 0),
  -- The caller's own name for it.
  custom_id text,
  state text not null check (state in
    ('queued','ready','in_flight','acting','requires_action','completed','failed','cancelled','expired')),
  stop_reason text check (stop_reason in ('end_turn','tool_rule','max_steps','max_tokens','stop_sequence','refusal',
    'budget_exceeded','loop_detected','context_overflow','no_valid_tools','invalid_request','provider_error','expired',
    'cancelled','deadline','poison')),
  error json,
  max_steps integer not null check (max_steps between 1 and 65535),
  -- The step to be sent next (ready), under way, or last (ended).
  step_number integer not null default 1,
  attempt smallint not null default 1 check (attempt between 1 and 255),
  -- Failed attempts of that step; one that was never accepted is not counted.
  failures smallint not null default 0,
  -- Doublings of max_output_tokens granted to the current step after an unfinished tool call.
  token_boost smallint not null default 0,
  -- First and last message of its conversation that are its own; null until it has started.
  first_seq integer,
  last_seq integer,
  created_at timestamptz not null default app_now(),
  started_at timestamptz,
  ended_at timestamptz,
  constraint run_low_bits_free check
    (get_byte(uuid_send(id), 13) = 0 and get_byte(uuid_send(id), 14) = 0 and get_byte(uuid_send(id), 15) = 0),
  constraint run_steps_bounded check (step_number between 1 and max_steps),
  constraint run_ended check ((state in ('completed','failed','cancelled','expired')) = (ended_at is not null)
    and (ended_at is not null) = (stop_reason is not null)),
  constraint run_failed_says_why check (state <> 'failed' or error is not null),
  constraint run_started check (
    (state = 'queued' and num_nonnulls(first_seq, last_seq, started_at) = 0)
    or (state in ('failed','cancelled') and num_nonnulls(first_seq, last_seq, started_at) in (0, 3))
    or (state <> 'queued' and num_nonnulls(first_seq, last_seq, started_at) = 3)),
  unique (batch_id, ordinal)
) with (fillfactor = 60);
-- No index of this table depends on a column that changes with every step: its updates stay HOT. Who must act on a
-- run is found through run_chunk and provider_batch.
create index run_open on run (batch_id) where ended_at is null;
create index run_queued on run (conversation_id, created_at, id) where started_at is null and ended_at is null;
create index run_by_agent on run (agent_id, created_at, id);
create index run_by_age on run (project_id, created_at, id);
create unique index run_by_custom_id on run (batch_id, custom_id) where custom_id is not null;

-- The input of a run that waits for its conversation; moved into it when the run starts.
create table queued_input (
  run_id uuid primary key references run on delete cascade,
  project_id uuid not null references project,
  messages json not null
);

-- A key at the provider. Its lease lets one create be under way at a time.
create table credential (
  id uuid primary key,
  name text not null unique,
  project_id uuid not null references project,
  paused_until timestamptz,
  pause_reason text,
  -- Creates in a row that the provider did not take or did not answer.
  failures smallint not null default 0,
  lease_owner text,
  lease_until timestamptz not null default '-infinity',
  lease_epoch integer not null default 0
);
insert into credential (id, name, project_id)
  values ('00000000-0000-4000-8000-000000000001', 'default', '00000000-0000-4000-8000-000000000000');

create table provider_batch (
  id uuid primary key,
  project_id uuid not null references project,
  credential text not null references credential (name),
  state text not null check (state in
    ('building','submitting','submitted','ended','ingested','unknown','rejected','cancelling','orphan_paid')),
  -- Names one submission in every custom_id; changed before anything is sent a second time.
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
  -- Empty looks for an unknown one.
  searches smallint not null default 0,
  -- Batches of the provider that were taken for this one and turned out not to be.
  not_ours text[] not null default '{}',
  -- Passes over the result file, and lines that the guard refused because they were applied before.
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

-- Submissions that were in doubt, watched for as long as the provider may still bring a batch of them to light: such a
-- second one is cancelled and booked, never applied.
create table doubted_submission (
  nonce text primary key,
  project_id uuid not null references project,
  provider_batch_id uuid not null references provider_batch,
  outcome text not null check (outcome in ('adopted','withdrawn')),
  request_count integer not null,
  submit_started_at timestamptz not null,
  watched_until timestamptz not null
);
create index doubted_submission_watched on doubted_submission (watched_until);

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
  cost_nanousd bigint not null default 0 check (cost_nanousd >= 0),
  error json,
  sealed_at timestamptz not null,
  -- When an answer was applied. At most one attempt of a number may ever have one.
  applied_at timestamptz,
  ended_at timestamptz,
  primary key (run_id, number, attempt),
  constraint step_applied check ((state in ('answered','done')) = (applied_at is not null)),
  constraint step_answered check (state not in ('answered','done') or stop_reason is not null),
  constraint step_ended check ((state in ('sealed','answered')) = (ended_at is null)),
  constraint step_error check (state <> 'errored' or error is not null)
) with (fillfactor = 70);
create unique index step_by_provider_batch on step (provider_batch_id, ordinal);
create unique index step_applied_once on step (run_id, number) where applied_at is not null;

create table message (
  project_id uuid not null,
  conversation_id uuid not null,
  seq integer not null check (seq between 0 and 16777215),
  run_id uuid,
  step_number integer,
  role text not null check (role in ('user','assistant','system')),
  -- The content array as it came; a JSON string is a wrapped array (see toStorable).
  content json not null,
  -- False for what requests must not show: a refusal, an answer cut off inside a call.
  shown boolean not null default true,
  otid text,
  name text,
  created_at timestamptz not null default app_now(),
  primary key (conversation_id, seq)
);

create table tool_call (
  project_id uuid not null,
  run_id uuid not null,
  step_number integer not null,
  call_index smallint not null,
  tool_use_id text not null,
  tool_name text not null,
  kind text not null check (kind in ('memory','module','client','rejected')),
  state text not null check (state in ('pending','running','succeeded','failed','unknown')),
  -- Its result until the message that carries all results of the step is written.
  held_result text,
  started_at timestamptz,
  ended_at timestamptz,
  duration_ms integer check (duration_ms >= 0),
  primary key (run_id, step_number, call_index),
  constraint tool_call_ended check ((state in ('pending','running')) = (ended_at is null)),
  constraint tool_call_running check (state <> 'running' or started_at is not null),
  constraint tool_call_held check (held_result is null or state not in ('pending','running'))
) with (fillfactor = 70);

-- Runs that wait for the same act, claimed together: 'ready' ones for a step to be sent, 'tools' ones for their calls
-- to be carried out. Written in the transaction that puts the runs into that state, deleted in the one that takes them
-- out. The lease is here, never on a run or step.
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

-- Result lines that could not be applied: kept for a person to look at.
create table result_line (
  provider_batch_id uuid not null references provider_batch,
  line_number integer not null,
  project_id uuid not null references project,
  custom_id text,
  reason text not null check (reason in ('unreadable','too_long','foreign','duplicate','conflicting')),
  byte_length bigint not null,
  excerpt text not null,
  seen_at timestamptz not null default app_now(),
  primary key (provider_batch_id, line_number)
);

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

-- What audits found, newest last. A row is made when one begins, so that workers take turns.
create table audit_report (
  id uuid primary key,
  project_id uuid not null references project,
  started_at timestamptz not null default app_now(),
  finished_at timestamptz,
  violations json
);
create index audit_report_by_age on audit_report (started_at);

create table idempotency_key (
  project_id uuid not null references project,
  key text not null check (length(key) between 1 and 255),
  request_sha256 text not null,
  batch_id uuid not null references batch,
  created_at timestamptz not null default app_now(),
  primary key (project_id, key)
);
create index idempotency_key_by_age on idempotency_key (created_at);
`,
    )
    .execute(db);
}
