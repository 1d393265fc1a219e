-- The cost of a night: prompts that only grow, statistics of steps, pilots, waits with a reason.


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
  cut_offs bigint not null,
  prompt_tokens bigint not null,
  output_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  cache_read_tokens bigint not null,
  readable_tokens bigint not null,
  -- To the day, so that most updates change no index.
  used_on timestamptz not null,
  primary key (key, measure, bucket)
);
create index work_statistic_unused on work_statistic (used_on) where measure = 'total';
create index work_statistic_full on work_statistic (key) where measure = 'total' and answers >= 50000;

-- Smallest value seen, which reservations rely on. Null: learnt before it was kept.
alter table token_calibration add column bytes_per_token_min double precision check (bytes_per_token_min > 0);


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
