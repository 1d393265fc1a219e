-- The schema as the migrations leave it, for review. Made by `npm run dump-schema`; never edited by hand.
-- It can be run in an empty database, but it holds no rows and no record of migrations: use the migrate step for that.

CREATE OR REPLACE FUNCTION public.app_now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 PARALLEL SAFE
AS $function$ select coalesce(nullif(current_setting('nightshift.now', true), '')::timestamptz, clock_timestamp()) $function$;

CREATE OR REPLACE FUNCTION public.failure_group(stop_reason text, message text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ select md5(concat_ws(' ', stop_reason, regexp_replace(regexp_replace(left(message, 400),
     '[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{8,}|(?=[a-z]*[0-9])[a-z0-9]{8,}|[0-9]+([.,:][0-9]+)*', '#', 'gi'),
     '#([-,.:/ ]*#)+', '#', 'g'))) $function$;

CREATE OR REPLACE FUNCTION public.name_grams(name text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$ select array(select distinct substr(lower(name), i, 3) from generate_series(1, length(name) - 2) i) $function$;

CREATE OR REPLACE FUNCTION public.note_batch_state()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into event (project_id, type, batch_id, data)
  values (new.project_id, 'batch.' || new.state, new.id, json_build_object('reason', new.state_reason));
  if new.completed_at is not null and new.apply = 'review' and (
       exists (select from held_change where batch_id = new.id and state = 'held')
       or exists (select from passage where batch_id = new.id and held_by_batch_id is not null)) then
    insert into event (project_id, type, batch_id, data) values (new.project_id, 'batch.review_ready', new.id, '{}');
  end if;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.note_tick()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into event (project_id, type, batch_id, schedule_id, data)
  values (new.project_id, 'schedule.tick', new.batch_id, new.schedule_id,
          json_build_object('due_at', new.due_at, 'outcome', new.outcome, 'reason', new.reason));
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.queue_callback_event()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into callback_event (xid, id, project_id, next_due_at)
  select new.xid, new.id, new.project_id, app_now() from batch
   where id = new.batch_id and callback_url is not null and substr(new.type, 7) = any(callback_events);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.raise_batch_version()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.version := old.version + 1;
  return new;
end $function$;

create table agent (
  id uuid not null,
  project_id uuid not null,
  conversation_id uuid not null,
  name text not null,
  description text,
  agent_type text not null,
  system text not null,
  model text not null,
  model_settings json not null,
  tool_rules json not null,
  metadata json,
  tags text[] not null default '{}'::text[],
  timezone text not null default 'UTC'::text,
  message_buffer_autoclear boolean not null default false,
  context_window_limit integer not null,
  hidden boolean not null default false,
  echoed json not null default '{}'::json,
  created_at timestamp with time zone not null default app_now(),
  updated_at timestamp with time zone not null default app_now(),
  deleted_at timestamp with time zone,
  compaction json not null default '{"mode":"sliding_window","evict_ratio":0.3}'::json,
  result_format json,
  keeps_blocks boolean not null default false,
  server_tools json,
  constraint agent_pkey PRIMARY KEY (id),
  constraint agent_conversation_id_key UNIQUE (conversation_id),
  constraint agent_context_window_limit_check CHECK ((context_window_limit > 0)),
  constraint agent_model_check CHECK ((POSITION(('/'::text) IN (model)) > 1)),
  constraint agent_server_tools_check CHECK ((json_typeof(server_tools) = 'array'::text))
);
CREATE INDEX agent_by_age ON public.agent USING btree (project_id, created_at, id) WHERE (deleted_at IS NULL);
CREATE INDEX agent_by_model ON public.agent USING btree (project_id, model) WHERE (deleted_at IS NULL);
CREATE INDEX agent_by_name ON public.agent USING btree (project_id, name) WHERE (deleted_at IS NULL);
CREATE INDEX agent_by_tag ON public.agent USING gin (tags) WHERE (deleted_at IS NULL);
CREATE INDEX agent_keeping_blocks ON public.agent USING btree (id) WHERE keeps_blocks;

create table agent_block (
  agent_id uuid not null,
  block_id uuid not null,
  label text not null,
  project_id uuid not null,
  position integer not null,
  constraint agent_block_pkey PRIMARY KEY (agent_id, block_id),
  constraint agent_block_agent_id_label_key UNIQUE (agent_id, label) DEFERRABLE
);
CREATE INDEX agent_block_by_block ON public.agent_block USING btree (block_id);

create table agent_tool (
  agent_id uuid not null,
  tool_id uuid not null,
  project_id uuid not null,
  position integer not null,
  constraint agent_tool_pkey PRIMARY KEY (agent_id, tool_id)
);
CREATE INDEX agent_tool_by_tool ON public.agent_tool USING btree (tool_id);

create table audit_report (
  id uuid not null,
  project_id uuid not null,
  started_at timestamp with time zone not null default app_now(),
  finished_at timestamp with time zone,
  violations json,
  covered_to timestamp with time zone,
  slice_to uuid,
  constraint audit_report_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_report_by_age ON public.audit_report USING btree (started_at);

create table batch (
  id uuid not null,
  project_id uuid not null,
  state text not null,
  state_reason text,
  total integer not null,
  metadata json,
  callback_url text,
  callback_sent_at timestamp with time zone,
  callback_status_code integer,
  callback_error text,
  callback_attempts smallint not null default 0,
  created_at timestamp with time zone not null default app_now(),
  updated_at timestamp with time zone not null default app_now(),
  cancel_requested_at timestamp with time zone,
  completed_at timestamp with time zone,
  next_due_at timestamp with time zone,
  lease_owner text,
  lease_until timestamp with time zone not null default '-infinity'::timestamp with time zone,
  lease_epoch integer not null default 0,
  takeovers integer not null default 0,
  apply text not null default 'auto'::text,
  budgeted boolean not null default false,
  accepted integer not null default 0,
  source json,
  agents_taken integer not null default 0,
  skipped json not null default '{}'::json,
  hold_if json,
  schedule_id uuid,
  tick_due_at timestamp with time zone,
  is_estimated boolean not null default false,
  expected_nanousd bigint,
  estimate_error double precision,
  pilot json,
  pilot_state text,
  pilot_ordinals integer[],
  pilot_ended_at timestamp with time zone,
  pilot_result json,
  retry_of uuid,
  stop_when json,
  name text,
  tags text[] not null default '{}'::text[],
  version bigint not null default 0,
  callback_events text[] not null default '{}'::text[],
  expires_in_days integer,
  expires_at timestamp with time zone,
  usage_booked integer not null default 0,
  constraint batch_pkey PRIMARY KEY (id),
  constraint batch_apply CHECK ((apply = ANY (ARRAY['auto'::text, 'review'::text]))),
  constraint batch_callback_events CHECK ((callback_events <@ '{requires_action,paused,review_ready}'::text[])),
  constraint batch_cancelling CHECK (((state <> ALL (ARRAY['cancelling'::text, 'cancelled'::text])) OR (cancel_requested_at IS NOT NULL))),
  constraint batch_ended CHECK (((state = ANY (ARRAY['completed'::text, 'cancelled'::text, 'failed'::text])) = (completed_at IS NOT NULL))),
  constraint batch_expected_nanousd_check CHECK ((expected_nanousd >= 0)),
  constraint batch_expires CHECK (((expires_at IS NULL) OR ((completed_at IS NOT NULL) AND (expires_in_days IS NOT NULL)))),
  constraint batch_expires_in_days_check CHECK ((expires_in_days >= 1)),
  constraint batch_paused CHECK (((state <> 'paused'::text) OR (state_reason IS NOT NULL))),
  constraint batch_pilot_complete CHECK ((((pilot IS NULL) = (pilot_state IS NULL)) AND ((pilot_state IS NOT NULL) OR (num_nulls(pilot_ordinals, pilot_ended_at, pilot_result) = 3)) AND ((pilot_ended_at IS NULL) = (pilot_result IS NULL)) AND ((pilot_state <> ALL (ARRAY['waiting'::text, 'passed'::text])) OR (pilot_ended_at IS NOT NULL)))),
  constraint batch_pilot_fits_state CHECK (
CASE pilot_state
    WHEN 'running'::text THEN (state = ANY (ARRAY['receiving'::text, 'running'::text, 'paused'::text]))
    WHEN 'waiting'::text THEN (state = 'paused'::text)
    WHEN 'stopped'::text THEN (state <> ALL (ARRAY['receiving'::text, 'running'::text]))
    ELSE true
END),
  constraint batch_pilot_state CHECK ((pilot_state = ANY (ARRAY['running'::text, 'waiting'::text, 'stopped'::text, 'passed'::text]))),
  constraint batch_state_check CHECK ((state = ANY (ARRAY['receiving'::text, 'running'::text, 'paused'::text, 'cancelling'::text, 'completed'::text, 'cancelled'::text, 'failed'::text]))),
  constraint batch_tick CHECK (((schedule_id IS NULL) = (tick_due_at IS NULL))),
  constraint batch_total_check CHECK ((total >= 0)),
  constraint batch_within_total CHECK (((accepted >= 0) AND (accepted <= total) AND ((state = 'receiving'::text) OR (accepted = total))))
);
CREATE INDEX batch_by_age ON public.batch USING btree (project_id, created_at, id);
CREATE INDEX batch_by_end ON public.batch USING btree (completed_at, id) WHERE (completed_at IS NOT NULL);
CREATE INDEX batch_by_name ON public.batch USING gin (name_grams(name)) WHERE (name IS NOT NULL);
CREATE INDEX batch_by_retention ON public.batch USING btree (apply, completed_at) WHERE ((completed_at IS NOT NULL) AND (expires_in_days IS NULL) AND (next_due_at IS NULL));
CREATE INDEX batch_by_retry ON public.batch USING btree (retry_of, created_at, id) WHERE (retry_of IS NOT NULL);
CREATE INDEX batch_by_schedule ON public.batch USING btree (schedule_id, created_at, id) WHERE (schedule_id IS NOT NULL);
CREATE INDEX batch_by_state ON public.batch USING btree (project_id, state, created_at, id);
CREATE INDEX batch_due ON public.batch USING btree (next_due_at) WHERE (next_due_at IS NOT NULL);
CREATE INDEX batch_estimated ON public.batch USING btree (completed_at) WHERE (estimate_error IS NOT NULL);
CREATE INDEX batch_expiring ON public.batch USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX batch_not_due ON public.batch USING btree (id) WHERE ((next_due_at IS NULL) AND (state = ANY (ARRAY['running'::text, 'paused'::text, 'cancelling'::text])));
CREATE INDEX batch_open ON public.batch USING btree (state) WHERE (completed_at IS NULL);
CREATE INDEX batch_open_by_schedule ON public.batch USING btree (schedule_id) WHERE ((schedule_id IS NOT NULL) AND (completed_at IS NULL));
CREATE INDEX batch_unestimated ON public.batch USING btree (created_at) WHERE ((NOT is_estimated) AND (state = 'running'::text));

create table batch_agent (
  batch_id uuid not null,
  ordinal integer not null,
  agent_id uuid not null,
  project_id uuid not null,
  skip_reason text,
  constraint batch_agent_pkey PRIMARY KEY (batch_id, ordinal),
  constraint batch_agent_ordinal_check CHECK ((ordinal >= 0))
);
CREATE INDEX batch_agent_skipped ON public.batch_agent USING btree (batch_id, agent_id) WHERE (skip_reason IS NOT NULL);

create table batch_budget (
  batch_id uuid not null,
  project_id uuid not null,
  max_cost_nanousd bigint,
  max_output_tokens bigint,
  spent_nanousd bigint not null default 0,
  spent_output_tokens bigint not null default 0,
  reserved_nanousd bigint not null default 0,
  reserved_output_tokens bigint not null default 0,
  room text not null default 'open'::text,
  overshoots integer not null default 0,
  overshot_nanousd bigint not null default 0,
  overshot_output_tokens bigint not null default 0,
  cut_offs integer not null default 0,
  needs_nanousd bigint,
  needs_output_tokens bigint,
  constraint batch_budget_pkey PRIMARY KEY (batch_id),
  constraint batch_budget_max_cost_nanousd_check CHECK ((max_cost_nanousd > 0)),
  constraint batch_budget_max_output_tokens_check CHECK ((max_output_tokens > 0)),
  constraint batch_budget_reserved_nanousd_check CHECK ((reserved_nanousd >= 0)),
  constraint batch_budget_reserved_output_tokens_check CHECK ((reserved_output_tokens >= 0)),
  constraint batch_budget_room_check CHECK ((room = ANY (ARRAY['open'::text, 'short'::text, 'freed'::text]))),
  constraint batch_budget_spent_nanousd_check CHECK ((spent_nanousd >= 0)),
  constraint batch_budget_spent_output_tokens_check CHECK ((spent_output_tokens >= 0))
);
CREATE INDEX batch_budget_counted ON public.batch_budget USING btree (batch_id) WHERE ((overshoots > 0) OR (cut_offs > 0));
CREATE INDEX batch_budget_freed ON public.batch_budget USING btree (batch_id) WHERE (room = 'freed'::text);

create table batch_label (
  project_id uuid not null,
  label text not null,
  created_at timestamp with time zone not null,
  batch_id uuid not null,
  constraint batch_label_pkey PRIMARY KEY (project_id, label, created_at, batch_id)
);
CREATE INDEX batch_label_by_batch ON public.batch_label USING btree (batch_id);

create table batch_minute (
  batch_id uuid not null,
  minute timestamp with time zone not null,
  slot smallint not null,
  project_id uuid not null,
  ended integer not null,
  failed integer not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost_nanousd bigint not null,
  constraint batch_minute_pkey PRIMARY KEY (batch_id, minute, slot)
);

create table batch_retry_run (
  batch_id uuid not null,
  ordinal integer not null,
  project_id uuid not null,
  run_id uuid not null,
  retry_run_id uuid,
  skip_reason text,
  constraint batch_retry_run_pkey PRIMARY KEY (batch_id, ordinal),
  constraint batch_retry_run_decided CHECK ((num_nonnulls(retry_run_id, skip_reason) <= 1))
);
CREATE INDEX batch_retry_run_by_run ON public.batch_retry_run USING btree (run_id);

create table batch_tally (
  batch_id uuid not null,
  slot smallint not null,
  project_id uuid not null,
  queued integer not null default 0,
  completed integer not null default 0,
  failed integer not null default 0,
  cancelled integer not null default 0,
  expired integer not null default 0,
  steps integer not null default 0,
  tool_calls integer not null default 0,
  failed_tool_calls integer not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_write_5m_tokens bigint not null default 0,
  cache_write_1h_tokens bigint not null default 0,
  cache_read_tokens bigint not null default 0,
  cost_nanousd bigint not null default 0,
  requires_action integer not null default 0,
  unpriced_steps integer not null default 0,
  retrying integer not null default 0,
  unknown_tool_calls integer not null default 0,
  version bigint not null default 0,
  last_ended_at timestamp with time zone,
  ended_tool_calls integer not null default 0,
  constraint batch_tally_pkey PRIMARY KEY (batch_id, slot)
) with (fillfactor=50);

create table block (
  id uuid not null,
  project_id uuid not null,
  label text not null,
  head_revision integer not null,
  metadata json not null default '{}'::json,
  tags text[] not null default '{}'::text[],
  is_template boolean not null default false,
  hidden boolean not null default false,
  created_at timestamp with time zone not null default app_now(),
  updated_at timestamp with time zone not null default app_now(),
  deleted_at timestamp with time zone,
  conflict_policy text not null default 'merge'::text,
  held_by_batch_id uuid,
  constraint block_pkey PRIMARY KEY (id),
  constraint block_id_label_key UNIQUE (id, label),
  constraint block_conflict_policy CHECK ((conflict_policy = ANY (ARRAY['reject'::text, 'last_write'::text, 'merge'::text]))),
  constraint block_head_revision_check CHECK ((head_revision >= 1)),
  constraint block_held CHECK (((held_by_batch_id IS NULL) OR (deleted_at IS NOT NULL)))
);
CREATE INDEX block_by_age ON public.block USING btree (project_id, created_at, id) WHERE (deleted_at IS NULL);
CREATE INDEX block_by_label ON public.block USING btree (project_id, label) WHERE (deleted_at IS NULL);

create table block_event (
  project_id uuid not null,
  block_id uuid not null,
  agent_id uuid not null,
  kind text not null,
  label text not null,
  new_label text,
  batch_id uuid not null,
  run_id uuid not null,
  step_number integer not null,
  place smallint not null,
  tool_use_id text not null,
  created_at timestamp with time zone not null default app_now(),
  constraint block_event_pkey PRIMARY KEY (run_id, step_number, place),
  constraint block_event_kind_check CHECK ((kind = ANY (ARRAY['created'::text, 'detached'::text, 'renamed'::text]))),
  constraint block_event_renamed CHECK (((kind = 'renamed'::text) = (new_label IS NOT NULL)))
);
CREATE INDEX block_event_by_batch ON public.block_event USING btree (batch_id, created_at);
CREATE INDEX block_event_by_block ON public.block_event USING btree (block_id, created_at);

create table block_revision (
  block_id uuid not null,
  revision integer not null,
  project_id uuid not null,
  description text,
  value text not null,
  char_limit integer not null,
  read_only boolean not null,
  based_on integer,
  batch_id uuid,
  run_id uuid,
  step_number integer,
  tool_use_id text,
  created_at timestamp with time zone not null default app_now(),
  resolution text,
  constraint block_revision_pkey PRIMARY KEY (block_id, revision),
  constraint block_revision_char_limit_check CHECK ((char_limit > 0)),
  constraint block_revision_check CHECK ((based_on < revision)),
  constraint block_revision_first CHECK (((revision = 1) = (based_on IS NULL))),
  constraint block_revision_resolution CHECK ((resolution = ANY (ARRAY['clean'::text, 'merged'::text, 'overwrote'::text, 'edited'::text]))),
  constraint block_revision_resolved CHECK (((resolution IS NULL) = (run_id IS NULL))),
  constraint block_revision_revision_check CHECK ((revision >= 1)),
  constraint block_revision_writer CHECK ((num_nulls(batch_id, run_id, step_number, tool_use_id) = ANY (ARRAY[0, 4])))
);
CREATE INDEX block_revision_by_batch ON public.block_revision USING btree (batch_id, block_id, revision) WHERE (batch_id IS NOT NULL);

create table callback_event (
  xid xid8 not null,
  id bigint not null,
  project_id uuid not null,
  attempts smallint not null default 0,
  sent_at timestamp with time zone,
  status_code integer,
  error text,
  next_due_at timestamp with time zone,
  lease_epoch integer not null default 0,
  constraint callback_event_pkey PRIMARY KEY (xid, id)
);
CREATE INDEX callback_event_due ON public.callback_event USING btree (next_due_at) WHERE (next_due_at IS NOT NULL);

create table conversation (
  id uuid not null,
  project_id uuid not null,
  run_id uuid,
  context_from_seq integer not null default 0,
  created_at timestamp with time zone not null default app_now(),
  summary_to_seq integer,
  reset_seq integer not null default 0,
  constraint conversation_pkey PRIMARY KEY (id),
  constraint conversation_context_from_seq_check CHECK ((context_from_seq >= 0)),
  constraint conversation_low_bits_free CHECK ((((get_byte(uuid_send(id), 12) & 127) = 0) AND (get_byte(uuid_send(id), 13) = 0) AND (get_byte(uuid_send(id), 14) = 0) AND (get_byte(uuid_send(id), 15) = 0))),
  constraint conversation_reset_is_past CHECK (((reset_seq = 0) OR ((reset_seq >= 1) AND (reset_seq <= (context_from_seq - 1))))),
  constraint conversation_summary_is_past CHECK ((summary_to_seq < context_from_seq))
) with (fillfactor=50);

create table conversation_summary (
  conversation_id uuid not null,
  to_seq integer not null,
  project_id uuid not null,
  hidden integer not null,
  summary text not null,
  run_id uuid not null,
  step_number integer not null,
  created_at timestamp with time zone not null default app_now(),
  constraint conversation_summary_pkey PRIMARY KEY (conversation_id, to_seq),
  constraint conversation_summary_run_id_step_number_key UNIQUE (run_id, step_number),
  constraint conversation_summary_hidden_check CHECK ((hidden >= 1)),
  constraint conversation_summary_summary_check CHECK ((summary <> ''::text)),
  constraint conversation_summary_to_seq_check CHECK ((to_seq >= 1))
);

create table credential (
  id uuid not null,
  name text not null,
  project_id uuid not null,
  paused_until timestamp with time zone,
  pause_reason text,
  failures smallint not null default 0,
  lease_owner text,
  lease_until timestamp with time zone not null default '-infinity'::timestamp with time zone,
  lease_epoch integer not null default 0,
  refusals smallint not null default 0,
  simulated boolean,
  clock_offset_ms bigint,
  clock_uncertainty_ms bigint,
  clock_measured_at timestamp with time zone,
  look_from timestamp with time zone,
  constraint credential_pkey PRIMARY KEY (id),
  constraint credential_name_key UNIQUE (name)
);

create table cursor_rewind (
  agent_id uuid not null,
  name text not null,
  project_id uuid not null,
  to_seq integer not null,
  rewinds integer not null,
  rewound_at timestamp with time zone not null default app_now(),
  constraint cursor_rewind_pkey PRIMARY KEY (agent_id, name),
  constraint cursor_rewind_rewinds_check CHECK ((rewinds >= 1)),
  constraint cursor_rewind_to_seq_check CHECK ((to_seq >= 0))
);

create table cursor_span (
  run_id uuid not null,
  agent_id uuid not null,
  name text not null,
  project_id uuid not null,
  batch_id uuid not null,
  from_seq integer not null,
  to_seq integer not null,
  top_seq integer not null,
  rewinds integer not null default 0,
  reverted_at timestamp with time zone,
  stop_reason text,
  constraint cursor_span_pkey PRIMARY KEY (run_id),
  constraint cursor_span_forward CHECK (((to_seq > from_seq) AND (top_seq >= to_seq))),
  constraint cursor_span_from_seq_check CHECK ((from_seq >= 0))
);
CREATE INDEX cursor_span_by_agent ON public.cursor_span USING btree (agent_id, name, rewinds, to_seq);
CREATE INDEX cursor_span_by_batch ON public.cursor_span USING btree (batch_id, agent_id);

create table definition (
  id uuid not null,
  project_id uuid not null,
  agent_type text not null,
  system text not null,
  model text not null,
  model_settings json not null,
  tool_rules json not null,
  tools json not null,
  created_at timestamp with time zone not null default app_now(),
  result_format json,
  context_window_limit integer not null default 128000,
  compaction json not null default '{"mode":"sliding_window","evict_ratio":0.3}'::json,
  shows_counts boolean not null default false,
  writable_labels text[],
  strict json,
  tool_choice json,
  server_tools json,
  constraint definition_pkey PRIMARY KEY (id),
  constraint definition_context_window_limit_check CHECK ((context_window_limit > 0)),
  constraint definition_server_tools_check CHECK ((json_typeof(server_tools) = 'array'::text)),
  constraint definition_strict_check CHECK ((json_typeof(strict) = 'object'::text)),
  constraint definition_tool_choice_check CHECK ((json_typeof(tool_choice) = 'object'::text))
);

create table deleted_item (
  id uuid not null,
  project_id uuid not null,
  kind text not null,
  created_at timestamp with time zone not null,
  deleted_at timestamp with time zone not null default app_now(),
  constraint deleted_item_pkey PRIMARY KEY (id),
  constraint deleted_item_kind_check CHECK ((kind = ANY (ARRAY['tool'::text, 'schedule'::text])))
);
CREATE INDEX deleted_item_by_age ON public.deleted_item USING btree (deleted_at);

create table doubted_submission (
  nonce text not null,
  project_id uuid not null,
  provider_batch_id uuid not null,
  outcome text not null,
  request_count integer not null,
  submit_started_at timestamp with time zone not null,
  watched_until timestamp with time zone not null,
  provider_sent_at timestamp with time zone,
  constraint doubted_submission_pkey PRIMARY KEY (nonce),
  constraint doubted_submission_outcome_check CHECK ((outcome = ANY (ARRAY['adopted'::text, 'withdrawn'::text, 'proven'::text])))
);
CREATE INDEX doubted_submission_watched ON public.doubted_submission USING btree (watched_until);

create table ended_runs (
  batch_id uuid not null,
  slot smallint not null,
  version bigint not null,
  project_id uuid not null,
  run_ids uuid[] not null,
  ended_at timestamp with time zone not null default app_now(),
  constraint ended_runs_pkey PRIMARY KEY (batch_id, slot, version),
  constraint ended_runs_run_ids_check CHECK ((cardinality(run_ids) > 0))
);

create table event (
  xid xid8 not null default pg_current_xact_id(),
  id bigint not null,
  project_id uuid not null,
  type text not null,
  batch_id uuid,
  schedule_id uuid,
  data json not null,
  created_at timestamp with time zone not null default app_now(),
  constraint event_pkey PRIMARY KEY (xid, id),
  constraint event_subject CHECK ((((type = 'schedule.tick'::text) = (schedule_id IS NOT NULL)) AND ((type = 'schedule.tick'::text) OR (batch_id IS NOT NULL)))),
  constraint event_type_check CHECK ((type = ANY (ARRAY['batch.receiving'::text, 'batch.running'::text, 'batch.paused'::text, 'batch.cancelling'::text, 'batch.completed'::text, 'batch.cancelled'::text, 'batch.failed'::text, 'batch.review_ready'::text, 'batch.requires_action'::text, 'schedule.tick'::text])))
);
CREATE INDEX event_by_age ON public.event USING btree (created_at);

create table failed_lines (
  error_type text not null,
  slot smallint not null,
  project_id uuid not null,
  lines bigint not null default 0,
  constraint failed_lines_pkey PRIMARY KEY (error_type, slot),
  constraint failed_lines_lines_check CHECK ((lines >= 0))
);

create table forgotten_batch (
  id uuid not null,
  project_id uuid not null,
  state text not null,
  created_at timestamp with time zone not null,
  completed_at timestamp with time zone not null,
  schedule_id uuid,
  tick_due_at timestamp with time zone,
  cost_nanousd bigint not null,
  forgotten_at timestamp with time zone not null default app_now(),
  next_ordinal integer not null default 0,
  removed_at timestamp with time zone,
  next_due_at timestamp with time zone,
  lease_owner text,
  lease_until timestamp with time zone not null default '-infinity'::timestamp with time zone,
  lease_epoch integer not null default 0,
  takeovers integer not null default 0,
  constraint forgotten_batch_pkey PRIMARY KEY (id),
  constraint forgotten_batch_due CHECK (((removed_at IS NULL) = (next_due_at IS NOT NULL))),
  constraint forgotten_batch_state_check CHECK ((state = ANY (ARRAY['completed'::text, 'cancelled'::text, 'failed'::text]))),
  constraint forgotten_batch_tick CHECK (((schedule_id IS NULL) = (tick_due_at IS NULL)))
);
CREATE INDEX forgotten_batch_by_schedule ON public.forgotten_batch USING btree (schedule_id, created_at) WHERE (schedule_id IS NOT NULL);
CREATE INDEX forgotten_batch_due ON public.forgotten_batch USING btree (next_due_at) WHERE (next_due_at IS NOT NULL);

create table forgotten_run (
  run_id uuid not null,
  batch_id uuid not null,
  project_id uuid not null,
  constraint forgotten_run_pkey PRIMARY KEY (run_id)
);

create table held_change (
  batch_id uuid not null,
  agent_id uuid not null,
  block_id uuid not null,
  project_id uuid not null,
  draft_id uuid not null,
  kind text not null,
  base_revision integer,
  base_label text,
  state text not null default 'held'::text,
  run_id uuid not null,
  step_number integer not null,
  tool_use_id text not null,
  created_at timestamp with time zone not null default app_now(),
  settled_at timestamp with time zone,
  edited_at timestamp with time zone,
  constraint held_change_pkey PRIMARY KEY (batch_id, agent_id, block_id),
  constraint held_change_draft_id_key UNIQUE (draft_id),
  constraint held_change_base CHECK ((((kind = ANY (ARRAY['created'::text, 'dropped'::text])) = (base_revision IS NULL)) AND ((base_revision IS NULL) = (base_label IS NULL)))),
  constraint held_change_kind_check CHECK ((kind = ANY (ARRAY['revised'::text, 'created'::text, 'detached'::text, 'dropped'::text]))),
  constraint held_change_settled CHECK (((state = 'held'::text) = (settled_at IS NULL))),
  constraint held_change_state_check CHECK ((state = ANY (ARRAY['held'::text, 'accepted'::text, 'rejected'::text])))
);
CREATE INDEX held_change_by_draft ON public.held_change USING btree (batch_id, draft_id);

create table idempotency_key (
  project_id uuid not null,
  key text not null,
  request_sha256 text not null,
  batch_id uuid,
  created_at timestamp with time zone not null default app_now(),
  by_retry boolean not null default false,
  made json,
  constraint idempotency_key_pkey PRIMARY KEY (project_id, key),
  constraint idempotency_key_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255))),
  constraint idempotency_key_stands CHECK (((batch_id IS NULL) <> (made IS NULL)))
);
CREATE INDEX idempotency_key_by_age ON public.idempotency_key USING btree (created_at);

create table mcp_server (
  id uuid not null,
  project_id uuid not null,
  name text not null,
  url text,
  headers json not null default '{}'::json,
  auth_header text,
  revision text not null,
  refreshed_at timestamp with time zone not null default app_now(),
  created_at timestamp with time zone not null default app_now(),
  updated_at timestamp with time zone not null default app_now(),
  constraint mcp_server_pkey PRIMARY KEY (id),
  constraint mcp_server_project_id_name_key UNIQUE (project_id, name),
  constraint mcp_server_headers_check CHECK ((json_typeof(headers) = 'object'::text)),
  constraint mcp_server_name_check CHECK ((name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'::text)),
  constraint mcp_server_program CHECK (((url IS NOT NULL) OR (((headers)::text = '{}'::text) AND (auth_header IS NULL)))),
  constraint mcp_server_url_check CHECK (((length(url) >= 1) AND (length(url) <= 2048)))
);

create table mcp_tool (
  server_id uuid not null,
  project_id uuid not null,
  name text not null,
  offered json,
  offered_sha256 text,
  approved json,
  approved_sha256 text,
  tool_id uuid,
  constraint mcp_tool_pkey PRIMARY KEY (server_id, name),
  constraint mcp_tool_any CHECK (((offered IS NOT NULL) OR (approved IS NOT NULL))),
  constraint mcp_tool_approved CHECK (((approved IS NULL) = (approved_sha256 IS NULL))),
  constraint mcp_tool_approved_sha256_check CHECK ((approved_sha256 ~ '^[0-9a-f]{64}$'::text)),
  constraint mcp_tool_name_check CHECK (((length(name) >= 1) AND (length(name) <= 128))),
  constraint mcp_tool_offered CHECK (((offered IS NULL) = (offered_sha256 IS NULL))),
  constraint mcp_tool_offered_sha256_check CHECK ((offered_sha256 ~ '^[0-9a-f]{64}$'::text)),
  constraint mcp_tool_tool CHECK (((tool_id IS NULL) OR (approved IS NOT NULL)))
);
CREATE UNIQUE INDEX mcp_tool_by_tool ON public.mcp_tool USING btree (tool_id);

create table memory_notice (
  run_id uuid not null,
  seq integer not null,
  project_id uuid not null,
  block_ids uuid[] not null,
  block_revisions integer[] not null,
  block_labels text[],
  constraint memory_notice_pkey PRIMARY KEY (run_id, seq)
);

create table message (
  project_id uuid not null,
  conversation_id uuid not null,
  seq integer not null,
  run_id uuid,
  step_number integer,
  role text not null,
  content json not null,
  shown boolean not null default true,
  otid text,
  name text,
  created_at timestamp with time zone not null default app_now(),
  said_at timestamp with time zone,
  constraint message_pkey PRIMARY KEY (conversation_id, seq),
  constraint message_role_check CHECK ((role = ANY (ARRAY['user'::text, 'assistant'::text, 'system'::text]))),
  constraint message_seq_check CHECK (((seq >= 0) AND (seq <= 16777215)))
);
CREATE UNIQUE INDEX message_answer_once ON public.message USING btree (run_id, step_number) WHERE ((role = 'assistant'::text) AND (step_number IS NOT NULL));
CREATE UNIQUE INDEX message_appended_otid ON public.message USING btree (conversation_id, otid) WHERE ((run_id IS NULL) AND (otid IS NOT NULL));

create table model_outage (
  credential text not null,
  model text not null,
  project_id uuid not null,
  outages integer not null,
  began_at timestamp with time zone not null,
  seen_at timestamp with time zone not null,
  ended_at timestamp with time zone,
  constraint model_outage_pkey PRIMARY KEY (credential, model),
  constraint model_outage_outages_check CHECK ((outages >= 1))
);

create table passage (
  id uuid not null,
  project_id uuid not null,
  agent_id uuid not null,
  content text not null,
  tags text[] not null default '{}'::text[],
  words tsvector not null,
  batch_id uuid not null,
  run_id uuid not null,
  step_number integer not null,
  tool_use_id text not null,
  held_by_batch_id uuid,
  created_at timestamp with time zone not null default app_now(),
  constraint passage_pkey PRIMARY KEY (id)
);
CREATE INDEX passage_by_agent ON public.passage USING btree (agent_id, created_at);
CREATE INDEX passage_by_batch ON public.passage USING btree (batch_id, agent_id);

create table project (
  id uuid not null,
  name text not null,
  created_at timestamp with time zone not null default app_now(),
  constraint project_pkey PRIMARY KEY (id)
);

create table prompt_density (
  definition_id uuid not null,
  project_id uuid not null,
  samples integer not null,
  bytes_per_token_min double precision not null,
  updated_at timestamp with time zone not null default app_now(),
  constraint prompt_density_pkey PRIMARY KEY (definition_id),
  constraint prompt_density_bytes_per_token_min_check CHECK ((bytes_per_token_min > (0)::double precision)),
  constraint prompt_density_samples_check CHECK ((samples >= 1))
);

create table provider_batch (
  id uuid not null,
  project_id uuid not null,
  credential text not null,
  state text not null,
  nonce text not null,
  submission smallint not null default 1,
  request_count integer not null,
  body_bytes bigint,
  body_sha256 text,
  provider_id text,
  submit_started_at timestamp with time zone,
  submitted_at timestamp with time zone,
  expires_at timestamp with time zone,
  ended_at timestamp with time zone,
  ingested_at timestamp with time zone,
  missing_since timestamp with time zone,
  searches smallint not null default 0,
  not_ours text[] not null default '{}'::text[],
  streams smallint not null default 0,
  lines_refused integer not null default 0,
  failures smallint not null default 0,
  error json,
  created_at timestamp with time zone not null default app_now(),
  next_due_at timestamp with time zone,
  lease_owner text,
  lease_until timestamp with time zone not null default '-infinity'::timestamp with time zone,
  lease_epoch integer not null default 0,
  takeovers integer not null default 0,
  token_samples json,
  crash_count smallint not null default 0,
  suspect text,
  suspect_tries smallint not null default 0,
  untried boolean not null default false,
  provider_sent_at timestamp with time zone,
  models text[],
  forgotten_steps integer not null default 0,
  cache_marks bytea,
  constraint provider_batch_pkey PRIMARY KEY (id),
  constraint provider_batch_nonce_key UNIQUE (nonce),
  constraint provider_batch_provider_id_key UNIQUE (provider_id),
  constraint provider_batch_due CHECK (((state = ANY (ARRAY['ingested'::text, 'rejected'::text, 'orphan_paid'::text])) = (next_due_at IS NULL))),
  constraint provider_batch_ended CHECK (((state <> ALL (ARRAY['ended'::text, 'ingested'::text])) OR (ended_at IS NOT NULL))),
  constraint provider_batch_ingested CHECK (((state = 'ingested'::text) = (ingested_at IS NOT NULL))),
  constraint provider_batch_nonce_check CHECK ((nonce ~ '^[a-z0-9]{6,16}$'::text)),
  constraint provider_batch_request_count_check CHECK ((request_count >= 0)),
  constraint provider_batch_state_check CHECK ((state = ANY (ARRAY['building'::text, 'submitting'::text, 'submitted'::text, 'ended'::text, 'ingested'::text, 'unknown'::text, 'rejected'::text, 'cancelling'::text, 'orphan_paid'::text]))),
  constraint provider_batch_steps_forgotten CHECK (((forgotten_steps >= 0) AND (forgotten_steps <= request_count))),
  constraint provider_batch_submitted CHECK (((state <> ALL (ARRAY['submitted'::text, 'ended'::text, 'ingested'::text, 'cancelling'::text])) OR (num_nulls(provider_id, submitted_at) = 0))),
  constraint provider_batch_unsent CHECK (((state <> ALL (ARRAY['building'::text, 'submitting'::text, 'unknown'::text])) OR (provider_id IS NULL))),
  constraint provider_batch_written_ahead CHECK (((state <> ALL (ARRAY['submitting'::text, 'submitted'::text, 'ended'::text, 'ingested'::text, 'unknown'::text, 'cancelling'::text])) OR (num_nulls(submit_started_at, body_bytes, body_sha256) = 0)))
);
CREATE INDEX provider_batch_by_age ON public.provider_batch USING btree (created_at);
CREATE INDEX provider_batch_due ON public.provider_batch USING btree (state, next_due_at) WHERE (next_due_at IS NOT NULL);
CREATE INDEX provider_batch_emptied ON public.provider_batch USING btree (created_at) WHERE ((forgotten_steps > 0) AND (forgotten_steps = request_count));

create table queued_input (
  run_id uuid not null,
  project_id uuid not null,
  messages json not null,
  constraint queued_input_pkey PRIMARY KEY (run_id)
);

create table result_line (
  provider_batch_id uuid not null,
  line_number integer not null,
  project_id uuid not null,
  custom_id text,
  reason text not null,
  byte_length bigint not null,
  excerpt text not null,
  seen_at timestamp with time zone not null default app_now(),
  bill json,
  constraint result_line_pkey PRIMARY KEY (provider_batch_id, line_number),
  constraint result_line_reason_check CHECK ((reason = ANY (ARRAY['unreadable'::text, 'unusable'::text, 'too_long'::text, 'foreign'::text, 'duplicate'::text, 'conflicting'::text])))
);

create table run (
  id uuid not null,
  project_id uuid not null,
  batch_id uuid not null,
  agent_id uuid not null,
  conversation_id uuid not null,
  definition_id uuid not null,
  ordinal integer not null,
  custom_id text,
  state text not null,
  stop_reason text,
  error json,
  max_steps integer not null,
  step_number integer not null default 1,
  attempt smallint not null default 1,
  failures smallint not null default 0,
  token_boost smallint not null default 0,
  first_seq integer,
  last_seq integer,
  created_at timestamp with time zone not null default app_now(),
  started_at timestamp with time zone,
  ended_at timestamp with time zone,
  trail json,
  result json,
  deadline_at timestamp with time zone,
  summary_steps integer not null default 0,
  summarises_to_seq integer,
  max_cost_nanousd bigint,
  max_output_tokens bigint,
  overdue_from timestamp with time zone,
  prompt_number integer,
  prompt_attempt smallint,
  failing_since timestamp with time zone,
  last_error json,
  next_attempt_at timestamp with time zone,
  cancel_requested_at timestamp with time zone,
  constraint run_pkey PRIMARY KEY (id),
  constraint run_batch_id_ordinal_key UNIQUE (batch_id, ordinal),
  constraint run_attempt_check CHECK (((attempt >= 1) AND (attempt <= 255))),
  constraint run_ended CHECK ((((state = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text, 'expired'::text])) = (ended_at IS NOT NULL)) AND ((ended_at IS NOT NULL) = (stop_reason IS NOT NULL)))),
  constraint run_failed_says_why CHECK (((state <> 'failed'::text) OR (error IS NOT NULL))),
  constraint run_failing CHECK ((num_nonnulls(failing_since, last_error, next_attempt_at) = ANY (ARRAY[0, 3]))),
  constraint run_low_bits_free CHECK (((get_byte(uuid_send(id), 13) = 0) AND (get_byte(uuid_send(id), 14) = 0) AND (get_byte(uuid_send(id), 15) = 0))),
  constraint run_max_cost_nanousd_check CHECK ((max_cost_nanousd > 0)),
  constraint run_max_output_tokens_check CHECK ((max_output_tokens > 0)),
  constraint run_max_steps_check CHECK (((max_steps >= 1) AND (max_steps <= 65535))),
  constraint run_ordinal_check CHECK ((ordinal >= 0)),
  constraint run_overdue CHECK ((NOT (overdue_from IS DISTINCT FROM
CASE
    WHEN (ended_at IS NULL) THEN LEAST(deadline_at, cancel_requested_at)
    ELSE NULL::timestamp with time zone
END))),
  constraint run_prompt CHECK (((prompt_number IS NULL) = (prompt_attempt IS NULL))),
  constraint run_started CHECK ((((state = 'queued'::text) AND (num_nonnulls(first_seq, last_seq, started_at) = 0)) OR ((state = ANY (ARRAY['failed'::text, 'cancelled'::text])) AND (num_nonnulls(first_seq, last_seq, started_at) = ANY (ARRAY[0, 3]))) OR ((state <> 'queued'::text) AND (num_nonnulls(first_seq, last_seq, started_at) = 3)))),
  constraint run_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'ready'::text, 'in_flight'::text, 'acting'::text, 'requires_action'::text, 'completed'::text, 'failed'::text, 'cancelled'::text, 'expired'::text]))),
  constraint run_steps_bounded CHECK (((step_number >= 1) AND (step_number <= (max_steps + summary_steps)))),
  constraint run_stop_reason_check CHECK ((stop_reason = ANY (ARRAY['end_turn'::text, 'tool_rule'::text, 'max_steps'::text, 'max_tokens'::text, 'stop_sequence'::text, 'refusal'::text, 'budget_exceeded'::text, 'loop_detected'::text, 'context_overflow'::text, 'no_valid_tools'::text, 'invalid_request'::text, 'provider_error'::text, 'unusable_answer'::text, 'expired'::text, 'cancelled'::text, 'deadline'::text, 'poison'::text]))),
  constraint run_summary_steps_check CHECK ((summary_steps >= 0))
) with (fillfactor=30);
CREATE INDEX run_by_age ON public.run USING btree (project_id, created_at, id);
CREATE INDEX run_by_agent ON public.run USING btree (agent_id, created_at, id);
CREATE UNIQUE INDEX run_by_custom_id ON public.run USING btree (batch_id, custom_id) WHERE (custom_id IS NOT NULL);
CREATE INDEX run_by_deadline ON public.run USING btree (overdue_from) WHERE (overdue_from IS NOT NULL);
CREATE INDEX run_failing ON public.run USING btree (batch_id) WHERE (failing_since IS NOT NULL);
CREATE INDEX run_queued ON public.run USING btree (conversation_id, created_at, id) WHERE (started_at IS NULL);

create table run_chunk (
  id uuid not null,
  project_id uuid not null,
  kind text not null,
  run_ids uuid[] not null,
  created_at timestamp with time zone not null default app_now(),
  failures smallint not null default 0,
  next_due_at timestamp with time zone not null,
  lease_owner text,
  lease_until timestamp with time zone not null default '-infinity'::timestamp with time zone,
  lease_epoch integer not null default 0,
  takeovers integer not null default 0,
  gathered boolean not null default false,
  constraint run_chunk_pkey PRIMARY KEY (id),
  constraint run_chunk_kind_check CHECK ((kind = ANY (ARRAY['ready'::text, 'tools'::text]))),
  constraint run_chunk_run_ids_check CHECK (((cardinality(run_ids) >= 1) AND (cardinality(run_ids) <= 10000)))
);
CREATE INDEX run_chunk_due ON public.run_chunk USING btree (kind, next_due_at);

create table run_failure (
  batch_id uuid not null,
  run_id uuid not null,
  project_id uuid not null,
  failed_at timestamp with time zone not null,
  state text not null,
  stop_reason text not null,
  message text,
  fingerprint text not null,
  constraint run_failure_pkey PRIMARY KEY (batch_id, run_id),
  constraint run_failure_state_check CHECK ((state = ANY (ARRAY['failed'::text, 'expired'::text, 'cancelled'::text])))
);
CREATE INDEX run_failure_by_group ON public.run_failure USING btree (batch_id, fingerprint, run_id);
CREATE INDEX run_failure_by_time ON public.run_failure USING btree (project_id, failed_at, run_id);

create table schedule (
  id uuid not null,
  project_id uuid not null,
  name text not null,
  cron text not null,
  time_zone text not null,
  body json not null,
  state text not null,
  state_reason text,
  overlap text not null default 'skip'::text,
  catch_up_window_s integer not null default 3600,
  jitter_s integer not null default 0,
  ends_at timestamp with time zone,
  max_cost_nanousd_per_month bigint,
  failures_max integer,
  tick_due_at timestamp with time zone,
  next_due_at timestamp with time zone,
  resumed_at timestamp with time zone,
  revision integer not null default 1,
  created_at timestamp with time zone not null default app_now(),
  updated_at timestamp with time zone not null default app_now(),
  constraint schedule_pkey PRIMARY KEY (id),
  constraint schedule_project_id_name_key UNIQUE (project_id, name),
  constraint schedule_catch_up_window_s_check CHECK ((catch_up_window_s >= 0)),
  constraint schedule_due CHECK ((((state = 'active'::text) = (tick_due_at IS NOT NULL)) AND ((tick_due_at IS NULL) OR (next_due_at IS NOT NULL)))),
  constraint schedule_failures_max_check CHECK ((failures_max >= 1)),
  constraint schedule_jitter_s_check CHECK ((jitter_s >= 0)),
  constraint schedule_max_cost_nanousd_per_month_check CHECK ((max_cost_nanousd_per_month > 0)),
  constraint schedule_overlap_check CHECK ((overlap = ANY (ARRAY['skip'::text, 'queue'::text]))),
  constraint schedule_says_why CHECK (((state = 'active'::text) OR (state_reason IS NOT NULL))),
  constraint schedule_state_check CHECK ((state = ANY (ARRAY['active'::text, 'paused'::text, 'ended'::text])))
);
CREATE INDEX schedule_by_age ON public.schedule USING btree (project_id, created_at, id);
CREATE INDEX schedule_due ON public.schedule USING btree (next_due_at) WHERE (next_due_at IS NOT NULL);

create table secret (
  project_id uuid not null,
  agent_id uuid,
  name text not null,
  key_id text not null,
  nonce bytea not null,
  ciphertext bytea not null,
  created_at timestamp with time zone not null default app_now(),
  updated_at timestamp with time zone not null default app_now(),
  constraint secret_place UNIQUE NULLS NOT DISTINCT (project_id, agent_id, name),
  constraint secret_ciphertext_check CHECK (((octet_length(ciphertext) >= 17) AND (octet_length(ciphertext) <= 65552))),
  constraint secret_key_id_check CHECK ((key_id ~ '^[0-9a-f]{16}$'::text)),
  constraint secret_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_]{0,63}$'::text)),
  constraint secret_nonce_check CHECK ((octet_length(nonce) = 12))
);

create table sent_steps (
  batch_id uuid not null,
  provider_batch_id uuid not null,
  project_id uuid not null,
  nonce text not null,
  steps integer not null,
  constraint sent_steps_pkey PRIMARY KEY (batch_id, provider_batch_id),
  constraint sent_steps_steps_check CHECK ((steps >= 1))
);

create table session (
  hash bytea not null,
  project_id uuid not null,
  kind text not null,
  key_hash bytea not null,
  created_at timestamp with time zone not null default app_now(),
  expires_at timestamp with time zone not null,
  constraint session_pkey PRIMARY KEY (hash),
  constraint session_kind_check CHECK ((kind = ANY (ARRAY['browser'::text, 'link'::text])))
);
CREATE INDEX session_by_expiry ON public.session USING btree (expires_at);

create table staged_line (
  batch_id uuid not null,
  project_id uuid not null,
  ordinal integer not null,
  bytes integer not null,
  custom_id text,
  run json not null,
  constraint staged_line_pkey PRIMARY KEY (batch_id, ordinal),
  constraint staged_line_ordinal_check CHECK ((ordinal >= 0))
);

create table step (
  project_id uuid not null,
  run_id uuid not null,
  number integer not null,
  attempt smallint not null,
  provider_batch_id uuid not null,
  ordinal integer not null,
  state text not null,
  context_from_seq integer not null,
  context_to_seq integer not null,
  block_ids uuid[] not null,
  block_revisions integer[] not null,
  max_tokens integer not null,
  stop_reason text,
  model text,
  provider_message_id text,
  input_tokens integer not null default 0,
  output_tokens integer not null default 0,
  cache_write_5m_tokens integer not null default 0,
  cache_write_1h_tokens integer not null default 0,
  cache_read_tokens integer not null default 0,
  cost_nanousd bigint default 0,
  error json,
  sealed_at timestamp with time zone not null,
  applied_at timestamp with time zone,
  ended_at timestamp with time zone,
  is_summary boolean not null default false,
  summary_to_seq integer,
  max_tokens_fitted integer,
  reserved_nanousd bigint,
  reserved_output_tokens integer,
  passages integer,
  passage_tags text[],
  block_labels text[],
  prompt_number integer,
  prompt_attempt smallint,
  answer_limit integer,
  constraint step_pkey PRIMARY KEY (run_id, number, attempt),
  constraint step_answer_limit_check CHECK ((answer_limit >= 1)),
  constraint step_answered CHECK (((state <> ALL (ARRAY['answered'::text, 'done'::text])) OR (stop_reason IS NOT NULL))),
  constraint step_applied CHECK (((state = ANY (ARRAY['answered'::text, 'done'::text])) = (applied_at IS NOT NULL))),
  constraint step_cache_read_tokens_check CHECK ((cache_read_tokens >= 0)),
  constraint step_cache_write_1h_tokens_check CHECK ((cache_write_1h_tokens >= 0)),
  constraint step_cache_write_5m_tokens_check CHECK ((cache_write_5m_tokens >= 0)),
  constraint step_cost_nanousd_check CHECK ((cost_nanousd >= 0)),
  constraint step_counts CHECK (((passages IS NULL) = (passage_tags IS NULL))),
  constraint step_ended CHECK (((state = ANY (ARRAY['sealed'::text, 'answered'::text])) = (ended_at IS NULL))),
  constraint step_error CHECK (((state <> 'errored'::text) OR (error IS NOT NULL))),
  constraint step_input_tokens_check CHECK ((input_tokens >= 0)),
  constraint step_max_tokens_fitted CHECK (((max_tokens_fitted >= 1) AND (max_tokens_fitted <= max_tokens))),
  constraint step_output_tokens_check CHECK ((output_tokens >= 0)),
  constraint step_passages_check CHECK ((passages >= 0)),
  constraint step_prompt CHECK ((((prompt_number IS NULL) = (prompt_attempt IS NULL)) AND ((prompt_number IS NULL) OR (ROW(prompt_number, prompt_attempt) <= ROW(number, attempt))))),
  constraint step_reserved CHECK (((reserved_nanousd IS NULL) = (reserved_output_tokens IS NULL))),
  constraint step_reserved_nanousd_check CHECK ((reserved_nanousd >= 0)),
  constraint step_state_check CHECK ((state = ANY (ARRAY['sealed'::text, 'answered'::text, 'done'::text, 'lost'::text, 'errored'::text, 'expired'::text, 'canceled'::text])))
) with (fillfactor=35);
CREATE UNIQUE INDEX step_by_provider_batch ON public.step USING btree (provider_batch_id, ordinal);

create table tick (
  schedule_id uuid not null,
  due_at timestamp with time zone not null,
  project_id uuid not null,
  is_manual boolean not null default false,
  outcome text not null,
  reason text,
  message text,
  batch_id uuid,
  created_at timestamp with time zone not null default app_now(),
  constraint tick_pkey PRIMARY KEY (schedule_id, due_at),
  constraint tick_outcome_check CHECK ((outcome = ANY (ARRAY['started'::text, 'waiting'::text, 'skipped'::text, 'missed'::text, 'refused'::text]))),
  constraint tick_says_why CHECK (((outcome = 'started'::text) OR (reason IS NOT NULL))),
  constraint tick_started CHECK (((outcome = 'started'::text) = (batch_id IS NOT NULL)))
);
CREATE UNIQUE INDEX tick_by_batch ON public.tick USING btree (batch_id) WHERE (batch_id IS NOT NULL);
CREATE UNIQUE INDEX tick_waiting ON public.tick USING btree (schedule_id) WHERE (outcome = 'waiting'::text);

create table token_calibration (
  model text not null,
  project_id uuid not null,
  bytes_per_token double precision not null,
  samples integer not null,
  updated_at timestamp with time zone not null default app_now(),
  constraint token_calibration_pkey PRIMARY KEY (model),
  constraint token_calibration_bytes_per_token_check CHECK ((bytes_per_token > (0)::double precision)),
  constraint token_calibration_samples_check CHECK ((samples >= 1))
);

create table tool (
  id uuid not null,
  project_id uuid not null,
  name text not null,
  kind text not null,
  tool_type text not null,
  description text not null,
  input_schema json not null,
  side_effects text not null,
  return_char_limit integer not null,
  timeout_ms integer not null,
  requires_approval boolean not null default false,
  source_type text not null,
  source_code text,
  tags text[] not null default '{}'::text[],
  metadata json not null default '{}'::json,
  created_at timestamp with time zone not null default app_now(),
  updated_at timestamp with time zone not null default app_now(),
  source json,
  concurrency integer,
  rate_per_minute integer,
  constraint tool_pkey PRIMARY KEY (id),
  constraint tool_project_id_name_key UNIQUE (project_id, name),
  constraint tool_concurrency_check CHECK (((concurrency >= 1) AND (concurrency <= 10000))),
  constraint tool_kind_check CHECK ((kind = ANY (ARRAY['memory'::text, 'finish'::text, 'module'::text, 'sandbox'::text, 'python'::text, 'http'::text, 'mcp'::text, 'client'::text]))),
  constraint tool_limits_of_worker CHECK ((((concurrency IS NULL) AND (rate_per_minute IS NULL)) OR (kind = ANY (ARRAY['module'::text, 'sandbox'::text, 'python'::text, 'http'::text, 'mcp'::text])))),
  constraint tool_name_check CHECK ((name ~ '^[a-zA-Z0-9_-]{1,64}$'::text)),
  constraint tool_rate_per_minute_check CHECK (((rate_per_minute >= 1) AND (rate_per_minute <= 1000000))),
  constraint tool_return_char_limit_check CHECK (((return_char_limit >= 1) AND (return_char_limit <= 1000000))),
  constraint tool_side_effects_check CHECK ((side_effects = ANY (ARRAY['none'::text, 'idempotent'::text, 'once'::text]))),
  constraint tool_source CHECK (((kind = ANY (ARRAY['sandbox'::text, 'python'::text, 'http'::text, 'mcp'::text])) = (source IS NOT NULL))),
  constraint tool_timeout_ms_check CHECK (((timeout_ms >= 1) AND (timeout_ms <= 3600000)))
);
CREATE INDEX tool_by_age ON public.tool USING btree (project_id, created_at, id);
CREATE INDEX tool_limited ON public.tool USING btree (project_id) WHERE ((concurrency IS NOT NULL) OR (rate_per_minute IS NOT NULL));

create table tool_bucket (
  tool_id uuid not null,
  project_id uuid not null,
  tokens double precision not null,
  filled_at timestamp with time zone not null,
  constraint tool_bucket_pkey PRIMARY KEY (tool_id),
  constraint tool_bucket_tokens_check CHECK ((tokens >= (0)::double precision))
);

create table tool_call (
  project_id uuid not null,
  run_id uuid not null,
  step_number integer not null,
  call_index smallint not null,
  tool_use_id text not null,
  tool_name text not null,
  kind text not null,
  state text not null,
  held_result text,
  started_at timestamp with time zone,
  ended_at timestamp with time zone,
  duration_ms integer,
  awaits text,
  verdict text,
  answer_sha256 text,
  attempts smallint not null default 0,
  constraint tool_call_pkey PRIMARY KEY (run_id, step_number, call_index),
  constraint tool_call_awaits_check CHECK ((awaits = ANY (ARRAY['approval'::text, 'answer'::text]))),
  constraint tool_call_duration_ms_check CHECK ((duration_ms >= 0)),
  constraint tool_call_ended CHECK (((state = ANY (ARRAY['pending'::text, 'running'::text])) = (ended_at IS NULL))),
  constraint tool_call_held CHECK (((held_result IS NULL) OR (state <> ALL (ARRAY['pending'::text, 'running'::text])))),
  constraint tool_call_kind_check CHECK ((kind = ANY (ARRAY['memory'::text, 'finish'::text, 'module'::text, 'sandbox'::text, 'python'::text, 'http'::text, 'mcp'::text, 'client'::text, 'rejected'::text]))),
  constraint tool_call_running CHECK (((state <> 'running'::text) OR (started_at IS NOT NULL))),
  constraint tool_call_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'unknown'::text]))),
  constraint tool_call_verdict CHECK ((((verdict IS NULL) = (answer_sha256 IS NULL)) AND ((verdict IS NULL) OR (awaits IS NOT NULL)))),
  constraint tool_call_verdict_check CHECK ((verdict = ANY (ARRAY['approved'::text, 'denied'::text, 'answered'::text])))
) with (fillfactor=40);

create table tool_call_output (
  project_id uuid not null,
  run_id uuid not null,
  step_number integer not null,
  call_index smallint not null,
  attempts smallint not null,
  answer_bytes integer,
  stdout text,
  stderr text,
  constraint tool_call_output_pkey PRIMARY KEY (run_id, step_number, call_index),
  constraint tool_call_output_answer_bytes_check CHECK ((answer_bytes >= 1)),
  constraint tool_call_output_any CHECK (((attempts > 1) OR (answer_bytes IS NOT NULL) OR (stdout IS NOT NULL) OR (stderr IS NOT NULL))),
  constraint tool_call_output_attempts_check CHECK ((attempts >= 1)),
  constraint tool_call_output_stderr_check CHECK (((length(stderr) >= 1) AND (length(stderr) <= 4096))),
  constraint tool_call_output_stdout_check CHECK (((length(stdout) >= 1) AND (length(stdout) <= 4096)))
);

create table tool_code (
  project_id uuid not null,
  sha256 text not null,
  code text not null,
  created_at timestamp with time zone not null default app_now(),
  constraint tool_code_pkey PRIMARY KEY (project_id, sha256),
  constraint tool_code_code_check CHECK ((octet_length(code) <= 524288)),
  constraint tool_code_sha256_check CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text))
);

create table tool_grant (
  tool_id uuid not null,
  owner text not null,
  project_id uuid not null,
  under_way integer not null,
  waiting integer not null,
  places integer not null,
  granted_until timestamp with time zone not null,
  constraint tool_grant_pkey PRIMARY KEY (tool_id, owner),
  constraint tool_grant_covers_calls CHECK ((places >= under_way)),
  constraint tool_grant_under_way_check CHECK ((under_way >= 0)),
  constraint tool_grant_waiting_check CHECK ((waiting >= 0))
);

create table tool_trial (
  id uuid not null,
  project_id uuid not null,
  agent_id uuid not null,
  tool json not null,
  arguments json not null,
  state text not null default 'waiting'::text,
  waits_until timestamp with time zone not null,
  taken_by text,
  replies_until timestamp with time zone,
  reply json,
  created_at timestamp with time zone not null default app_now(),
  constraint tool_trial_pkey PRIMARY KEY (id),
  constraint tool_trial_arguments_check CHECK ((json_typeof(arguments) = 'object'::text)),
  constraint tool_trial_replied CHECK (((state = 'ended'::text) = (reply IS NOT NULL))),
  constraint tool_trial_reply_check CHECK ((json_typeof(reply) = 'object'::text)),
  constraint tool_trial_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'running'::text, 'ended'::text]))),
  constraint tool_trial_taken CHECK ((((state = 'waiting'::text) = (taken_by IS NULL)) AND ((taken_by IS NULL) = (replies_until IS NULL)))),
  constraint tool_trial_tool_check CHECK ((json_typeof(tool) = 'object'::text))
);
CREATE INDEX tool_trial_by_age ON public.tool_trial USING btree (created_at);
CREATE INDEX tool_trial_waiting ON public.tool_trial USING btree (created_at) WHERE (state = 'waiting'::text);

create table turnaround (
  credential text not null,
  model text not null,
  project_id uuid not null,
  durations_ms integer[] not null,
  updated_at timestamp with time zone not null default app_now(),
  constraint turnaround_pkey PRIMARY KEY (credential, model),
  constraint turnaround_durations_ms_check CHECK (((cardinality(durations_ms) >= 1) AND (cardinality(durations_ms) <= 64)))
);

create table unstarted_input (
  run_id uuid not null,
  project_id uuid not null,
  messages json not null,
  constraint unstarted_input_pkey PRIMARY KEY (run_id)
);

create table upload (
  batch_id uuid not null,
  project_id uuid not null,
  started_at timestamp with time zone not null default app_now(),
  constraint upload_pkey PRIMARY KEY (batch_id)
);
CREATE INDEX upload_by_age ON public.upload USING btree (started_at);

create table usage_day (
  project_id uuid not null,
  day date not null,
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
  unpriced_steps bigint not null,
  constraint usage_day_project_id_day_model_tags_schedule_id_key UNIQUE NULLS NOT DISTINCT (project_id, day, model, tags, schedule_id)
);

create table waiting_message (
  conversation_id uuid not null,
  place integer not null,
  project_id uuid not null,
  role text not null,
  content json not null,
  otid text,
  name text,
  said_at timestamp with time zone,
  created_at timestamp with time zone not null default app_now(),
  constraint waiting_message_pkey PRIMARY KEY (conversation_id, place),
  constraint waiting_message_place_check CHECK ((place >= 1)),
  constraint waiting_message_role_check CHECK ((role = ANY (ARRAY['user'::text, 'assistant'::text, 'system'::text])))
);
CREATE UNIQUE INDEX waiting_message_otid ON public.waiting_message USING btree (conversation_id, otid) WHERE (otid IS NOT NULL);

create table work_statistic (
  key text not null,
  measure text not null,
  bucket smallint not null,
  project_id uuid not null,
  answers bigint not null,
  ended bigint not null,
  prompt_tokens bigint not null,
  output_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  cache_read_tokens bigint not null,
  used_on timestamp with time zone not null,
  constraint work_statistic_pkey PRIMARY KEY (key, measure, bucket),
  constraint work_statistic_bucket_check CHECK ((bucket >= 0)),
  constraint work_statistic_measure_check CHECK ((measure = ANY (ARRAY['total'::text, 'step'::text, 'output'::text])))
);
CREATE INDEX work_statistic_full ON public.work_statistic USING btree (key) WHERE ((measure = 'total'::text) AND (answers >= 50000));
CREATE INDEX work_statistic_unused ON public.work_statistic USING btree (used_on) WHERE (measure = 'total'::text);

create table worker (
  owner text not null,
  project_id uuid not null,
  name text not null,
  host text not null,
  pid integer not null,
  version text not null,
  started_at timestamp with time zone not null default app_now(),
  heartbeat_at timestamp with time zone not null default app_now(),
  tools json not null,
  id uuid not null default gen_random_uuid(),
  drain_requested_at timestamp with time zone,
  constraint worker_pkey PRIMARY KEY (owner),
  constraint worker_id_key UNIQUE (id)
);

alter table agent add constraint agent_conversation_id_fkey FOREIGN KEY (conversation_id) REFERENCES conversation(id);
alter table agent add constraint agent_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table agent_block add constraint agent_block_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agent(id) ON DELETE CASCADE;
alter table agent_block add constraint agent_block_block_id_label_fkey FOREIGN KEY (block_id, label) REFERENCES block(id, label) ON UPDATE CASCADE ON DELETE CASCADE;
alter table agent_block add constraint agent_block_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table agent_tool add constraint agent_tool_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agent(id) ON DELETE CASCADE;
alter table agent_tool add constraint agent_tool_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table agent_tool add constraint agent_tool_tool_id_fkey FOREIGN KEY (tool_id) REFERENCES tool(id) ON DELETE CASCADE;
alter table audit_report add constraint audit_report_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table batch add constraint batch_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table batch_budget add constraint batch_budget_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES batch(id) ON DELETE CASCADE;
alter table batch_budget add constraint batch_budget_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table batch_label add constraint batch_label_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES batch(id) ON DELETE CASCADE;
alter table batch_label add constraint batch_label_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table batch_minute add constraint batch_minute_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table batch_retry_run add constraint batch_retry_run_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table batch_tally add constraint batch_tally_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES batch(id) ON DELETE CASCADE;
alter table batch_tally add constraint batch_tally_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table block add constraint block_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table block_event add constraint block_event_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agent(id);
alter table block_event add constraint block_event_block_id_fkey FOREIGN KEY (block_id) REFERENCES block(id) ON DELETE CASCADE;
alter table block_event add constraint block_event_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table block_revision add constraint block_revision_block_id_fkey FOREIGN KEY (block_id) REFERENCES block(id) ON DELETE CASCADE;
alter table block_revision add constraint block_revision_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table callback_event add constraint callback_event_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table callback_event add constraint callback_event_xid_id_fkey FOREIGN KEY (xid, id) REFERENCES event(xid, id) ON DELETE CASCADE;
alter table conversation_summary add constraint conversation_summary_conversation_id_fkey FOREIGN KEY (conversation_id) REFERENCES conversation(id);
alter table conversation_summary add constraint conversation_summary_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table credential add constraint credential_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table cursor_rewind add constraint cursor_rewind_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table cursor_span add constraint cursor_span_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table definition add constraint definition_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table deleted_item add constraint deleted_item_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table doubted_submission add constraint doubted_submission_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table doubted_submission add constraint doubted_submission_provider_batch_id_fkey FOREIGN KEY (provider_batch_id) REFERENCES provider_batch(id);
alter table ended_runs add constraint ended_runs_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table event add constraint event_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table failed_lines add constraint failed_lines_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table forgotten_batch add constraint forgotten_batch_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table held_change add constraint held_change_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agent(id);
alter table held_change add constraint held_change_draft_id_fkey FOREIGN KEY (draft_id) REFERENCES block(id);
alter table held_change add constraint held_change_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table idempotency_key add constraint idempotency_key_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table mcp_server add constraint mcp_server_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table mcp_tool add constraint mcp_tool_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table mcp_tool add constraint mcp_tool_server_id_fkey FOREIGN KEY (server_id) REFERENCES mcp_server(id) ON DELETE CASCADE;
alter table mcp_tool add constraint mcp_tool_tool_id_fkey FOREIGN KEY (tool_id) REFERENCES tool(id) ON DELETE SET NULL;
alter table memory_notice add constraint memory_notice_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table model_outage add constraint model_outage_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table passage add constraint passage_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agent(id);
alter table passage add constraint passage_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table prompt_density add constraint prompt_density_definition_id_fkey FOREIGN KEY (definition_id) REFERENCES definition(id);
alter table prompt_density add constraint prompt_density_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table provider_batch add constraint provider_batch_credential_fkey FOREIGN KEY (credential) REFERENCES credential(name);
alter table provider_batch add constraint provider_batch_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table queued_input add constraint queued_input_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table queued_input add constraint queued_input_run_id_fkey FOREIGN KEY (run_id) REFERENCES run(id) ON DELETE CASCADE;
alter table result_line add constraint result_line_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table result_line add constraint result_line_provider_batch_id_fkey FOREIGN KEY (provider_batch_id) REFERENCES provider_batch(id);
alter table run_chunk add constraint run_chunk_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table run_failure add constraint run_failure_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table schedule add constraint schedule_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table secret add constraint secret_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES agent(id);
alter table secret add constraint secret_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table sent_steps add constraint sent_steps_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table session add constraint session_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table tick add constraint tick_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table tick add constraint tick_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES schedule(id) ON DELETE CASCADE;
alter table token_calibration add constraint token_calibration_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table tool add constraint tool_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table tool_bucket add constraint tool_bucket_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table tool_bucket add constraint tool_bucket_tool_id_fkey FOREIGN KEY (tool_id) REFERENCES tool(id) ON DELETE CASCADE;
alter table tool_code add constraint tool_code_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table tool_grant add constraint tool_grant_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table tool_grant add constraint tool_grant_tool_id_fkey FOREIGN KEY (tool_id) REFERENCES tool(id) ON DELETE CASCADE;
alter table tool_trial add constraint tool_trial_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table turnaround add constraint turnaround_credential_fkey FOREIGN KEY (credential) REFERENCES credential(name);
alter table turnaround add constraint turnaround_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table unstarted_input add constraint unstarted_input_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table unstarted_input add constraint unstarted_input_run_id_fkey FOREIGN KEY (run_id) REFERENCES run(id) ON DELETE CASCADE;
alter table upload add constraint upload_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table usage_day add constraint usage_day_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table waiting_message add constraint waiting_message_conversation_id_fkey FOREIGN KEY (conversation_id) REFERENCES conversation(id) ON DELETE CASCADE;
alter table waiting_message add constraint waiting_message_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table work_statistic add constraint work_statistic_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);
alter table worker add constraint worker_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id);

CREATE TRIGGER batch_moved AFTER UPDATE ON public.batch FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION note_batch_state();
CREATE TRIGGER batch_stored AFTER INSERT ON public.batch FOR EACH ROW EXECUTE FUNCTION note_batch_state();
CREATE TRIGGER batch_version BEFORE UPDATE OF state, state_reason, total, accepted, updated_at, completed_at, expected_nanousd, estimate_error, pilot_state, callback_sent_at, callback_status_code, callback_error, callback_attempts ON public.batch FOR EACH ROW EXECUTE FUNCTION raise_batch_version();
CREATE TRIGGER event_called_back AFTER INSERT ON public.event FOR EACH ROW WHEN (((new.batch_id IS NOT NULL) AND (new.schedule_id IS NULL))) EXECUTE FUNCTION queue_callback_event();
CREATE TRIGGER tick_moved AFTER UPDATE ON public.tick FOR EACH ROW WHEN ((old.outcome IS DISTINCT FROM new.outcome)) EXECUTE FUNCTION note_tick();
CREATE TRIGGER tick_stored AFTER INSERT ON public.tick FOR EACH ROW EXECUTE FUNCTION note_tick();
