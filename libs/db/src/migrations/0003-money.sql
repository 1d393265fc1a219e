-- The cost of a night: prompts that only grow, statistics of steps, pilots, waits with a reason.


-- ---------- Requests that only grow ----------

alter table run
  -- The attempt of a step whose memory all requests of the run show; null: the next request compiles its memory anew.
  add column prompt_number integer,
  add column prompt_attempt smallint,
  add constraint run_prompt check ((prompt_number is null) = (prompt_attempt is null));

alter table step
  -- The attempt whose memory this request shows: its own, or an earlier one of its run. Null: a request sealed before this
  -- migration, which shows its own.
  add column prompt_number integer,
  add column prompt_attempt smallint,
  add constraint step_prompt check ((prompt_number is null) = (prompt_attempt is null)
    and (prompt_number is null or (prompt_number, prompt_attempt) <= (number, attempt)));

-- User messages that told a run what others wrote into its memory.
create table memory_notice (
  run_id uuid not null,
  -- Its message in the conversation of the run.
  seq integer not null,
  project_id uuid not null references project,
  -- What the run knows with it: its blocks, their revisions and labels.
  block_ids uuid[] not null,
  block_revisions integer[] not null,
  block_labels text[],
  primary key (run_id, seq)
);


-- ---------- Fewer round trips ----------

-- The parts whose form the provider enforces, {"tools": [names], "result_format": boolean}; null: none.
-- Kept, because another release may choose otherwise, and the requests of a run must not change.
alter table definition add column strict json check (json_typeof(strict) = 'object');


-- ---------- Turnarounds and looks ----------

-- Times from create to end of provider batches with requests to a model, as the provider states them.
create table turnaround (
  credential text not null references credential (name),
  -- The provider's name.
  model text not null,
  project_id uuid not null references project,
  -- The latest first. Unit: milliseconds.
  durations_ms integer[] not null check (cardinality(durations_ms) between 1 and 64),
  updated_at timestamptz not null default app_now(),
  primary key (credential, model)
);

-- Models of a sample of its requests, by the provider's names; null: not sent yet.
alter table provider_batch add column models text[];
-- The earliest time of the next look at submitted provider batches, over all workers; null: at any time.
alter table credential add column look_from timestamptz;
-- For ready runs: they are sealed without waiting for more.
alter table run_chunk add column gathered boolean not null default false;


-- ---------- Retries that end, and say so ----------

alter table run
  -- When the present step first failed; null: it has not failed. An ended run keeps the last values.
  add column failing_since timestamptz,
  -- The error of its last attempt: `type` and `message`, bounded in size.
  add column last_error json,
  -- When the next attempt is or was due.
  add column next_attempt_at timestamptz,
  add constraint run_failing check (num_nonnulls(failing_since, last_error, next_attempt_at) in (0, 3));
-- Only runs with a failed step are in it, so updates of all others stay HOT.
create index run_failing on run (batch_id) where failing_since is not null;

-- Outages of the provider, as proven by fresh requests. A row stays for the count.
create table model_outage (
  credential text not null,
  model text not null,
  project_id uuid not null references project,
  outages integer not null check (outages >= 1),
  began_at timestamptz not null,
  -- The last time at which fresh requests proved it.
  seen_at timestamptz not null,
  -- Null: it is not over.
  ended_at timestamptz,
  primary key (credential, model)
);

-- Failed attempts of steps, by error type. Several rows for each, so that commits seldom wait for each other.
create table failed_lines (
  error_type text not null,
  slot smallint not null,
  project_id uuid not null references project,
  lines bigint not null default 0 check (lines >= 0),
  primary key (error_type, slot)
);
