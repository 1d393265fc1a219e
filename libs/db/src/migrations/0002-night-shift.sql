-- Batches that are accepted in portions, fleets, transcripts, cursors and schedules.


-- ---------- Accepting in portions ----------

alter table batch
  -- Runs stored so far. All of them, unless the batch is `receiving`.
  add column accepted integer not null default 0,
  -- What the remaining runs are made of; null: the request stored all runs.
  add column source json,
  -- Agents of the fleet whose runs are stored, or that are skipped.
  add column agents_taken integer not null default 0,
  -- Number of skipped agents by reason.
  add column skipped json not null default '{}',
  -- Finishing the batch accepts its held changes, except for the agents named by this rule; null: a person decides.
  add column hold_if json,
  add column schedule_id uuid,
  add column tick_due_at timestamptz;
update batch set accepted = total;
alter table batch
  add constraint batch_within_total check (accepted >= 0 and accepted <= total and (state = 'receiving' or accepted = total)),
  add constraint batch_tick check ((schedule_id is null) = (tick_due_at is null));
create index batch_open_by_schedule on batch (schedule_id) where schedule_id is not null and completed_at is null;
create index batch_by_schedule on batch (schedule_id, created_at, id) where schedule_id is not null;

-- The agents of a fleet, as selected when the batch was stored. Without foreign keys, like runs: the auditor checks them.
create table batch_agent (
  batch_id uuid not null,
  ordinal integer not null check (ordinal >= 0),
  agent_id uuid not null,
  project_id uuid not null,
  -- Why the agent has no run; null: it has one, or its portion is not accepted yet.
  skip_reason text,
  primary key (batch_id, ordinal)
);
create index batch_agent_skipped on batch_agent (batch_id, agent_id) where skip_reason is not null;

-- Labels of the blocks that calls may write; null: all.
alter table definition add column writable_labels text[];


-- ---------- Transcripts ----------

-- A message without a run is appended: its users said it elsewhere.
alter table message add column said_at timestamptz;
create unique index message_appended_otid on message (conversation_id, otid) where run_id is null and otid is not null;

-- Appended messages that wait for the end of the run that holds their conversation.
create table waiting_message (
  conversation_id uuid not null references conversation on delete cascade,
  place integer not null check (place >= 1),
  project_id uuid not null references project,
  role text not null check (role in ('user','assistant','system')),
  content json not null,
  otid text,
  name text,
  said_at timestamptz,
  created_at timestamptz not null default app_now(),
  primary key (conversation_id, place)
);
create unique index waiting_message_otid on waiting_message (conversation_id, otid) where otid is not null;


-- ---------- Cursors ----------

-- The messages of an agent's conversation that a run under a cursor was given: those after from_seq, up to to_seq.
-- The position of a cursor is derived from these rows and the ends of their runs.
create table cursor_span (
  run_id uuid primary key,
  agent_id uuid not null,
  name text not null,
  project_id uuid not null references project,
  batch_id uuid not null,
  from_seq integer not null check (from_seq >= 0),
  to_seq integer not null,
  -- The conversation's last message at the accept.
  top_seq integer not null,
  -- Rewinds of the cursor before this run; an older number no longer counts.
  rewinds integer not null default 0,
  -- Set when a revert of the batch took the run's changes back, or when its changes were rejected without another trace.
  reverted_at timestamptz,
  constraint cursor_span_forward check (to_seq > from_seq and top_seq >= to_seq)
);
create index cursor_span_by_agent on cursor_span (agent_id, name, rewinds, to_seq);
create index cursor_span_by_batch on cursor_span (batch_id, agent_id);
-- A cursor asks whether its batch holds passages of its agent.
drop index passage_by_batch;
create index passage_by_batch on passage (batch_id, agent_id);

-- A rewound cursor: its position is at least this until a later run moves it.
create table cursor_rewind (
  agent_id uuid not null,
  name text not null,
  project_id uuid not null references project,
  to_seq integer not null check (to_seq >= 0),
  rewinds integer not null check (rewinds >= 1),
  rewound_at timestamptz not null default app_now(),
  primary key (agent_id, name)
);


-- ---------- Schedules ----------

drop table tick;
drop table schedule;

create table schedule (
  id uuid primary key,
  project_id uuid not null references project,
  name text not null,
  cron text not null,
  time_zone text not null,
  -- The body of the batch that each tick submits.
  body json not null,
  state text not null check (state in ('active','paused','ended')),
  state_reason text,
  -- `skip`: a tick whose predecessor's batch is open makes no batch. `queue`: one such tick waits for its end.
  overlap text not null default 'skip' check (overlap in ('skip','queue')),
  catch_up_window_s integer not null default 3600 check (catch_up_window_s >= 0),
  jitter_s integer not null default 0 check (jitter_s >= 0),
  ends_at timestamptz,
  max_cost_nanousd_per_month bigint check (max_cost_nanousd_per_month > 0),
  -- Failed ticks in a row after which the schedule pauses; null: never.
  failures_max integer check (failures_max >= 1),
  -- The next moment of the rule; null unless active.
  tick_due_at timestamptz,
  -- When a worker looks at it: the tick plus its jitter, or the end of a batch.
  next_due_at timestamptz,
  -- Failed ticks count from here.
  resumed_at timestamptz,
  revision integer not null default 1,
  created_at timestamptz not null default app_now(),
  updated_at timestamptz not null default app_now(),
  constraint schedule_due check ((state = 'active') = (tick_due_at is not null) and (tick_due_at is null or next_due_at is not null)),
  constraint schedule_says_why check (state = 'active' or state_reason is not null),
  unique (project_id, name)
);
create index schedule_due on schedule (next_due_at) where next_due_at is not null;
create index schedule_by_age on schedule (project_id, created_at, id);

create table tick (
  schedule_id uuid not null references schedule on delete cascade,
  due_at timestamptz not null,
  project_id uuid not null references project,
  -- True for a tick that a person asked for.
  is_manual boolean not null default false,
  outcome text not null check (outcome in ('started','waiting','skipped','missed','refused')),
  -- Why it made no batch; a word of ours or the code of an error.
  reason text,
  message text,
  batch_id uuid references batch,
  created_at timestamptz not null default app_now(),
  primary key (schedule_id, due_at),
  constraint tick_started check ((outcome = 'started') = (batch_id is not null)),
  constraint tick_says_why check (outcome = 'started' or reason is not null)
);
create unique index tick_by_batch on tick (batch_id) where batch_id is not null;
create unique index tick_waiting on tick (schedule_id) where outcome = 'waiting';


-- ---------- Isolated conversations ----------

-- Each isolated run inserts a conversation: like its run, without a look-up of its project.
alter table conversation drop constraint conversation_project_id_fkey;
