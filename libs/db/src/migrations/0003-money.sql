-- The cost of a night: prompts that only grow, statistics of steps, pilots, waits with a reason.


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
