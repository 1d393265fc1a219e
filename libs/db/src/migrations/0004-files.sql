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

alter table batch
  -- The number of changes to the columns that callers see. With the versions of its tally slots it is the version of the batch.
  add column version bigint not null default 0,
  -- Events that its callback reports beside its end.
  add column callback_events text[] not null default '{}'
    constraint batch_callback_events check (callback_events <@ '{requires_action,paused,review_ready}');

-- A trigger, because a commit that forgot the version would make an ETag wrong. Claims and leases do not count.
create function raise_batch_version() returns trigger language plpgsql as $$
begin
  new.version := old.version + 1;
  return new;
end $$;
create trigger batch_version
  before update of state, state_reason, total, accepted, updated_at, completed_at, expected_nanousd, estimate_error, pilot_state,
                   callback_sent_at, callback_status_code, callback_error, callback_attempts
  on batch for each row
  execute function raise_batch_version();

-- When the last run counted in this slot ended.
alter table batch_tally add column last_ended_at timestamptz;
update batch_tally t set last_ended_at = e.ended_at
  from (select batch_id, slot, max(ended_at) as ended_at from ended_runs group by batch_id, slot) e
 where e.batch_id = t.batch_id and e.slot = t.slot;

-- The steps that a submission sends, by batch, written with its intent. The nonce says to which submission they belong.
create table sent_steps (
  batch_id uuid not null,
  provider_batch_id uuid not null,
  project_id uuid not null references project,
  nonce text not null,
  steps integer not null check (steps >= 1),
  primary key (batch_id, provider_batch_id)
);

-- Rare changes, for a stream of events. A transaction that commits late has an older xid than rows that readers may have seen
-- already, so readers stop before the oldest open transaction: (xid, id) is then an order that no commit breaks.
create table event (
  xid xid8 not null default pg_current_xact_id(),
  id bigint generated always as identity,
  project_id uuid not null references project,
  type text not null check (type in ('batch.receiving','batch.running','batch.paused','batch.cancelling','batch.completed',
    'batch.cancelled','batch.failed','batch.review_ready','batch.requires_action','schedule.tick')),
  batch_id uuid,
  schedule_id uuid,
  data json not null,
  created_at timestamptz not null default app_now(),
  primary key (xid, id),
  constraint event_subject check ((type = 'schedule.tick') = (schedule_id is not null)
    and (type = 'schedule.tick' or batch_id is not null))
);
create index event_by_age on event (created_at);

-- Events that a batch's callback reports, until they are delivered or given up. They go with their event.
create table callback_event (
  xid xid8 not null,
  id bigint not null,
  project_id uuid not null references project,
  attempts smallint not null default 0,
  sent_at timestamptz,
  status_code integer,
  error text,
  -- Null: delivered or given up. A claim moves it on, so that a delivery whose worker was killed is repeated.
  next_due_at timestamptz,
  lease_epoch integer not null default 0,
  primary key (xid, id),
  foreign key (xid, id) references event on delete cascade
);
create index callback_event_due on callback_event (next_due_at) where next_due_at is not null;

create function note_batch_state() returns trigger language plpgsql as $$
begin
  insert into event (project_id, type, batch_id, data)
  values (new.project_id, 'batch.' || new.state, new.id, json_build_object('reason', new.state_reason));
  if new.completed_at is not null and new.apply = 'review' and (
       exists (select from held_change where batch_id = new.id and state = 'held')
       or exists (select from passage where batch_id = new.id and held_by_batch_id is not null)) then
    insert into event (project_id, type, batch_id, data) values (new.project_id, 'batch.review_ready', new.id, '{}');
  end if;
  return null;
end $$;
create trigger batch_stored after insert on batch for each row execute function note_batch_state();
create trigger batch_moved after update on batch for each row when (old.state is distinct from new.state)
  execute function note_batch_state();

create function note_tick() returns trigger language plpgsql as $$
begin
  insert into event (project_id, type, batch_id, schedule_id, data)
  values (new.project_id, 'schedule.tick', new.batch_id, new.schedule_id,
          json_build_object('due_at', new.due_at, 'outcome', new.outcome, 'reason', new.reason));
  return null;
end $$;
create trigger tick_stored after insert on tick for each row execute function note_tick();
create trigger tick_moved after update on tick for each row when (old.outcome is distinct from new.outcome)
  execute function note_tick();

create function queue_callback_event() returns trigger language plpgsql as $$
begin
  insert into callback_event (xid, id, project_id, next_due_at)
  select new.xid, new.id, new.project_id, app_now() from batch
   where id = new.batch_id and callback_url is not null and substr(new.type, 7) = any(callback_events);
  return null;
end $$;
create trigger event_called_back after insert on event for each row when (new.batch_id is not null and new.schedule_id is null)
  execute function queue_callback_event();


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

-- Rows of a batch outlive its row for as long as a flow removes them, and some stay: the auditor checks them instead.
alter table idempotency_key drop constraint idempotency_key_batch_id_fkey;
alter table tick drop constraint tick_batch_id_fkey;
alter table held_change drop constraint held_change_batch_id_fkey, drop constraint held_change_block_id_fkey;
alter table block drop constraint block_held_by_batch_id_fkey;
alter table passage drop constraint passage_held_by_batch_id_fkey;

alter table batch
  -- Days from its end until it is forgotten; null: RETENTION_DAYS of the workers decides.
  add column expires_in_days integer check (expires_in_days >= 1),
  add column expires_at timestamptz,
  -- Runs below it are booked in usage_day; an ended batch is booked whole.
  add column usage_booked integer not null default 0,
  add constraint batch_expires check (expires_at is null or (completed_at is not null and expires_in_days is not null));
create index batch_by_end on batch (completed_at, id) where completed_at is not null;
create index batch_expiring on batch (expires_at) where expires_at is not null;
-- Reviews may keep batches for long: they stand apart.
create index batch_by_retention on batch (apply, completed_at)
  where completed_at is not null and expires_in_days is null and next_due_at is null;

-- Batches that are gone for callers. The flow `forget-batches` removes their runs; the row stays, because revisions, passages
-- and messages that stay name them.
create table forgotten_batch (
  id uuid primary key,
  project_id uuid not null references project,
  state text not null check (state in ('completed','cancelled','failed')),
  created_at timestamptz not null,
  completed_at timestamptz not null,
  -- For the monthly cap and the failed ticks of its schedule.
  schedule_id uuid,
  tick_due_at timestamptz,
  cost_nanousd bigint not null,
  forgotten_at timestamptz not null default app_now(),
  -- Runs below it are removed.
  next_ordinal integer not null default 0,
  removed_at timestamptz,
  next_due_at timestamptz,
  lease_owner text,
  lease_until timestamptz not null default '-infinity',
  lease_epoch integer not null default 0,
  takeovers integer not null default 0,
  constraint forgotten_batch_due check ((removed_at is null) = (next_due_at is not null)),
  constraint forgotten_batch_tick check ((schedule_id is null) = (tick_due_at is null))
);
create index forgotten_batch_due on forgotten_batch (next_due_at) where next_due_at is not null;
create index forgotten_batch_by_schedule on forgotten_batch (schedule_id, created_at) where schedule_id is not null;

-- Removed runs whose messages stay in the conversation of their agent.
create table forgotten_run (
  run_id uuid primary key,
  batch_id uuid not null,
  project_id uuid not null
);

-- Steps that were removed with their runs.
alter table provider_batch add column forgotten_steps integer not null default 0;
alter table provider_batch add constraint provider_batch_steps_forgotten check (forgotten_steps between 0 and request_count);
create index provider_batch_emptied on provider_batch (created_at) where forgotten_steps > 0 and forgotten_steps = request_count;

-- Why the run of a span ended, once the run is removed. A span that a later one replaces is removed with it.
alter table cursor_span add column stop_reason text;

-- Use of ended batches by UTC day of the answer or end, model, tags and schedule. Written with the end of a batch.
create table usage_day (
  project_id uuid not null references project,
  day date not null,
  -- Handle of the model of the runs.
  model text not null,
  tags text[] not null,
  schedule_id uuid,
  completed bigint not null,
  failed bigint not null,
  cancelled bigint not null,
  steps bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_write_tokens bigint not null,
  cache_read_tokens bigint not null,
  cost_nanousd bigint not null,
  -- Answers of models without a price; their cost is not counted.
  unpriced_steps bigint not null,
  unique nulls not distinct (project_id, day, model, tags, schedule_id)
);

-- Batches that ended before this migration.
insert into usage_day
select b.project_id, u.day, d.model, b.tags, b.schedule_id, sum(u.completed), sum(u.failed), sum(u.cancelled), sum(u.steps),
       sum(u.input_tokens), sum(u.output_tokens), sum(u.cache_write_tokens), sum(u.cache_read_tokens), sum(u.cost_nanousd),
       sum(u.unpriced_steps)
  from batch b
  join run r on r.batch_id = b.id
  join definition d on d.id = r.definition_id
 cross join lateral (
   select (coalesce(s.applied_at, s.ended_at) at time zone 'UTC')::date as day,
          0 as completed, 0 as failed, 0 as cancelled, (s.applied_at is not null)::int as steps,
          s.input_tokens, s.output_tokens, s.cache_write_5m_tokens + s.cache_write_1h_tokens as cache_write_tokens,
          s.cache_read_tokens, coalesce(s.cost_nanousd, 0) as cost_nanousd, (s.cost_nanousd is null)::int as unpriced_steps
     from step s where s.run_id = r.id and s.state <> 'sealed'
   union all
   select (r.ended_at at time zone 'UTC')::date, (r.state = 'completed')::int, (r.state in ('failed', 'expired'))::int,
          (r.state = 'cancelled')::int, 0, 0, 0, 0, 0, 0, 0
    where r.ended_at is not null) u
 where b.completed_at is not null
 group by b.project_id, u.day, d.model, b.tags, b.schedule_id;

alter table audit_report
  -- A later audit reads the batches that were open or ended since; null: the audit is not over, or found a violation.
  add column covered_to timestamptz,
  -- The last id of the slice of old rows that it read; null: it read the last slice.
  add column slice_to uuid;
