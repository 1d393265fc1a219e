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
  -- When the present step of an open run first failed; null: it has not failed.
  add column failing_since timestamptz,
  -- The error of its last attempt: `type` and `message`, bounded in size.
  add column last_error json,
  -- When the next attempt is or was due.
  add column next_attempt_at timestamptz,
  add constraint run_failing check (num_nonnulls(failing_since, last_error, next_attempt_at) in (0, 3));
-- Only runs with a failed step are in it, so updates of all others stay HOT.
create index run_failing on run (batch_id) where failing_since is not null;

-- Open runs whose present step has failed: counted, because in an outage they are all runs of a batch.
alter table batch_tally add column retrying integer not null default 0;

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


-- ---------- Statistics of work ----------

-- Sums over answers, by definition and by work class (work-statistics.ts). They are added after the commit of the answers, so a
-- crash may lose some: estimates and limits of answers read them, and nothing that must be exact.
create table work_statistic (
  key text not null,
  -- `total`: bucket 0. `step`: by step number, from 0. `output`: by quarter octave of output tokens.
  measure text not null check (measure in ('total','step','output')),
  bucket smallint not null check (bucket >= 0),
  project_id uuid not null references project,
  answers bigint not null,
  ended bigint not null,
  prompt_tokens bigint not null,
  output_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  cache_read_tokens bigint not null,
  -- To the day, so that most updates change no index.
  used_on timestamptz not null,
  primary key (key, measure, bucket)
);
create index work_statistic_unused on work_statistic (used_on) where measure = 'total';
create index work_statistic_full on work_statistic (key) where measure = 'total' and answers >= 50000;

-- Samples of the prompts of a definition, which reservations rely on.
create table prompt_density (
  definition_id uuid primary key references definition,
  project_id uuid not null references project,
  samples integer not null check (samples >= 1),
  bytes_per_token_min double precision not null check (bytes_per_token_min > 0),
  updated_at timestamptz not null default app_now()
);


-- ---------- Caps ----------

-- Limit of the answer under a cap, below `max_tokens`: by what such steps wrote. Null: `max_tokens` is the limit.
alter table step add column answer_limit integer check (answer_limit >= 1);

alter table batch_budget
  -- Answers above their reservation, and their cost and tokens above it.
  add column overshoots integer not null default 0,
  add column overshot_nanousd bigint not null default 0,
  add column overshot_output_tokens bigint not null default 0,
  -- Answers cut off at `answer_limit`, which were asked for again.
  add column cut_offs integer not null default 0,
  -- Use of the step for which the batch paused at its cap.
  add column needs_nanousd bigint,
  add column needs_output_tokens bigint;
create index batch_budget_counted on batch_budget (batch_id) where overshoots > 0 or cut_offs > 0;


-- ---------- Estimates ----------

alter table batch
  -- Whether its cost was estimated: once, before its first request.
  add column is_estimated boolean not null default false,
  -- Expected cost; null: not estimated, or a model without a price.
  add column expected_nanousd bigint check (expected_nanousd >= 0),
  -- Share of the bill by which the expected cost was above it, set by the end of a completed batch.
  add column estimate_error double precision;
create index batch_unestimated on batch (created_at) where not is_estimated and state = 'running';
create index batch_estimated on batch (completed_at) where estimate_error is not null;


-- ---------- Tool calls with an unknown outcome ----------

-- A part of failed_tool_calls: interrupted calls that may have taken effect.
alter table batch_tally add column unknown_tool_calls integer not null default 0;
insert into batch_tally (batch_id, slot, project_id, unknown_tool_calls)
select r.batch_id, 0, r.project_id, count(*)
  from tool_call c join run r on r.id = c.run_id
  join step s on s.run_id = c.run_id and s.number = c.step_number and s.applied_at is not null and s.state = 'done'
 where c.state = 'unknown' group by r.batch_id, r.project_id
on conflict (batch_id, slot) do update set unknown_tool_calls = excluded.unknown_tool_calls;


-- ---------- Cursors of deleted items ----------

-- The places of deleted tools and schedules in their lists: a client that deletes while listing goes on from there. Kept for
-- some days.
create table deleted_item (
  id uuid primary key,
  project_id uuid not null references project,
  kind text not null check (kind in ('tool', 'schedule')),
  created_at timestamptz not null,
  deleted_at timestamptz not null default app_now()
);
create index deleted_item_by_age on deleted_item (deleted_at);


-- ---------- Pilots ----------

-- A batch with a pilot sends a sample of its runs first, alone.
alter table batch
  -- Its settings; null: no pilot.
  add column pilot json,
  -- running: its runs go alone. waiting: they have ended, the batch waits for a resume. stopped: they have ended and paused
  -- the batch, or the batch ended before the other runs went. passed: the other runs go.
  add column pilot_state text,
  -- Places of its runs in the batch; null until all runs are stored.
  add column pilot_ordinals integer[],
  add column pilot_ended_at timestamptz,
  -- Costs, ends and the projection of its runs, once they have ended.
  add column pilot_result json,
  add constraint batch_pilot_state check (pilot_state in ('running','waiting','stopped','passed')),
  add constraint batch_pilot_complete check (
    (pilot is null) = (pilot_state is null)
    and (pilot_state is not null or num_nulls(pilot_ordinals, pilot_ended_at, pilot_result) = 3)
    and (pilot_ended_at is null) = (pilot_result is null)
    and (pilot_state not in ('waiting','passed') or pilot_ended_at is not null)),
  add constraint batch_pilot_fits_state check (
    case pilot_state when 'running' then state in ('receiving','running','paused') when 'waiting' then state = 'paused'
                     when 'stopped' then state not in ('receiving','running') else true end);
