-- The cost of a night: prompts that only grow, statistics of steps, pilots, waits with a reason.


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
