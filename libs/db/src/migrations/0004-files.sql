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

-- The group of a failure: the same for messages that differ in ids and numbers alone. Names in quotes stay, because they
-- often tell two failures apart. The head of the message is enough, and is all that an open run keeps of its last error.
create function failure_group(stop_reason text, message text) returns text language sql immutable parallel safe as
$$ select md5(concat_ws(' ', stop_reason, regexp_replace(regexp_replace(left(message, 400),
     '[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{8,}|(?=[a-z]*[0-9])[a-z0-9]{8,}|[0-9]+([.,:][0-9]+)*', '#', 'gi'),
     '#([-,.:/ ]*#)+', '#', 'g'))) $$;

insert into run_failure (batch_id, run_id, project_id, failed_at, state, stop_reason, message, fingerprint)
select r.batch_id, r.id, r.project_id, r.ended_at, r.state, r.stop_reason, m.message, failure_group(r.stop_reason, m.message)
  from run r cross join lateral (select left(r.error ->> 'message', 2000) as message) m
 where r.state in ('failed','expired','cancelled');
create index run_failure_by_group on run_failure (batch_id, fingerprint, run_id);
create index run_failure_by_time on run_failure (project_id, failed_at, run_id);

alter table batch
  -- The batch whose failed runs it tries again; no reference, because that batch may be forgotten first.
  add column retry_of uuid,
  -- Ends that cancel the batch; null: none.
  add column stop_when json;
create index batch_by_retry on batch (retry_of, created_at, id) where retry_of is not null;

-- The runs that a batch tries again, in the order of its runs.
create table batch_retry_run (
  batch_id uuid not null,
  ordinal integer not null,
  project_id uuid not null references project,
  -- A run of the batch in retry_of.
  run_id uuid not null,
  -- The run made for it; null until then, and for a skipped one.
  retry_run_id uuid,
  skip_reason text,
  primary key (batch_id, ordinal),
  constraint batch_retry_run_decided check (num_nonnulls(retry_run_id, skip_reason) <= 1)
);
create index batch_retry_run_by_run on batch_retry_run (run_id);

-- The input of runs that ended before they started, so that they can be tried again. Like queued_input.
create table unstarted_input (
  run_id uuid primary key references run on delete cascade,
  project_id uuid not null references project,
  messages json not null
);

-- The time of a request to cancel this run alone. From then on it takes no step, as if its deadline had passed.
alter table run
  add column cancel_requested_at timestamptz,
  drop constraint run_overdue,
  add constraint run_overdue check (
    overdue_from is not distinct from case when ended_at is null then least(deadline_at, cancel_requested_at) end);


-- ---------- Names and tags ----------

alter table batch
  add column name text,
  add column tags text[] not null default '{}';

-- The parts of three characters of a name, for searches by a part of it.
create function name_grams(name text) returns text[] language sql immutable strict parallel safe as
$$ select array(select distinct substr(lower(name), i, 3) from generate_series(1, length(name) - 2) i) $$;
create index batch_by_name on batch using gin (name_grams(name)) where name is not null;
create index batch_by_state on batch (project_id, state, created_at, id);

-- Tags and scalar metadata of batches, as rows in the order of a list: a GIN index would sort all batches with a common tag.
create table batch_label (
  project_id uuid not null references project,
  -- 'tag <tag>', or 'metadata <key> <value as JSON>'.
  label text not null,
  created_at timestamptz not null,
  batch_id uuid not null references batch on delete cascade,
  primary key (project_id, label, created_at, batch_id)
);
create index batch_label_by_batch on batch_label (batch_id);


-- ---------- Progress and events ----------


-- ---------- Uploads ----------


-- ---------- Keeping and forgetting ----------

