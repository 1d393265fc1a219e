-- Files in and out, progress, failures, keeping and forgetting.


-- ---------- Counts of a batch, and its ended runs ----------

-- The number of commits that changed this slot. Their sum over the slots is the version of a batch's progress.
alter table batch_tally add column version bigint not null default 0;

-- The runs that one commit ended, numbered by the version of its slot: a reader that keeps the version reached in each slot
-- misses none and reads none twice. Instead of an index on the ends of runs (ADR 0025).
create table ended_runs (
  batch_id uuid not null,
  slot smallint not null,
  version bigint not null,
  project_id uuid not null references project,
  run_ids uuid[] not null check (cardinality(run_ids) > 0),
  ended_at timestamptz not null default app_now(),
  primary key (batch_id, slot, version)
);

-- What commits added to a batch, by minute, for charts.
create table batch_minute (
  batch_id uuid not null,
  minute timestamptz not null,
  slot smallint not null,
  project_id uuid not null references project,
  ended integer not null,
  failed integer not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost_nanousd bigint not null,
  primary key (batch_id, minute, slot)
);

-- Runs that ended before this migration.
insert into batch_tally (batch_id, slot, project_id)
select distinct batch_id, 0, project_id from run where ended_at is not null on conflict do nothing;
insert into ended_runs (batch_id, slot, version, project_id, run_ids, ended_at)
select batch_id, 0, part + 1, project_id, array_agg(id order by ordinal), max(ended_at)
  from (select *, (row_number() over (partition by batch_id order by ended_at, id) - 1) / 1000 as part from run where ended_at is not null) r
 group by batch_id, part, project_id;
update batch_tally t set version = e.version
  from (select batch_id, max(version) as version from ended_runs group by batch_id) e where e.batch_id = t.batch_id and t.slot = 0;


-- ---------- Failures ----------

-- Runs that ended failed, expired or cancelled, written by the commit that ends them.
create table run_failure (
  batch_id uuid not null,
  run_id uuid not null,
  project_id uuid not null references project,
  failed_at timestamptz not null,
  state text not null check (state in ('failed','expired','cancelled')),
  stop_reason text not null,
  message text,
  -- Equal for messages that differ in ids and numbers alone.
  fingerprint text not null,
  primary key (batch_id, run_id)
);
insert into run_failure (batch_id, run_id, project_id, failed_at, state, stop_reason, message, fingerprint)
select r.batch_id, r.id, r.project_id, r.ended_at, r.state, r.stop_reason, m.message,
       md5(concat_ws(' ', r.stop_reason, regexp_replace(m.message, '[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]+', '#', 'gi')))
  from run r cross join lateral (select left(r.error ->> 'message', 2000) as message) m
 where r.state in ('failed','expired','cancelled');
create index run_failure_by_group on run_failure (batch_id, fingerprint, run_id);
create index run_failure_by_time on run_failure (project_id, failed_at, run_id);

alter table batch
  -- The batch whose failed runs it tries again; no reference, because that batch may be forgotten first.
  add column retry_of uuid,
  -- Ends that cancel the batch; null: none.
  add column stop_when json;
create index batch_by_retry on batch (retry_of) where retry_of is not null;


-- ---------- Names and tags ----------

alter table batch
  add column name text,
  add column tags text[] not null default '{}';


-- ---------- Progress and events ----------


-- ---------- Uploads ----------

-- An upload whose lines are being staged, under the id of its future batch. The commit that stores the batch deletes it.
create table upload (
  batch_id uuid primary key,
  project_id uuid not null references project,
  started_at timestamptz not null default app_now()
);
create index upload_by_age on upload (started_at);

-- Validated lines of an upload, or of a `receiving` batch; the commit that makes their runs deletes them.
create table staged_line (
  batch_id uuid not null,
  project_id uuid not null,
  ordinal integer not null check (ordinal >= 0),
  -- Size of `run`, for portions of bounded size.
  bytes integer not null,
  custom_id text,
  run json not null,
  primary key (batch_id, ordinal)
);


-- ---------- Keeping and forgetting ----------

