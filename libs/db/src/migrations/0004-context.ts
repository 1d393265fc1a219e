import { sql, type Kysely } from 'kysely';

/** Context windows and their compaction: summaries in a place of their own, and what the tokens of a model measure. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
alter table agent
  -- How its conversation is kept short, as the core reads it.
  add column compaction json not null default '{"mode":"sliding_window","evict_ratio":0.3}';

alter table definition
  add column context_window_limit integer not null default 128000 check (context_window_limit > 0),
  add column compaction json not null default '{"mode":"sliding_window","evict_ratio":0.3}';

-- What stands for messages that are no longer shown; a row per compaction, never changed. A request shows one at most.
create table conversation_summary (
  conversation_id uuid not null references conversation,
  -- The last message that it stands for; it stands for all that were shown before, too.
  to_seq integer not null check (to_seq >= 1),
  project_id uuid not null references project,
  -- Messages that it stands for, those of earlier summaries included.
  hidden integer not null check (hidden >= 1),
  summary text not null check (summary <> ''),
  -- The step whose answer it is.
  run_id uuid not null,
  step_number integer not null,
  created_at timestamptz not null default app_now(),
  primary key (conversation_id, to_seq),
  unique (run_id, step_number)
);

alter table conversation
  -- The summary that later requests show before the messages; null: none.
  add column summary_to_seq integer,
  add constraint conversation_summary_is_past check (summary_to_seq < context_from_seq);

alter table run
  -- Steps that summarised: they come on top of max_steps.
  add column summary_steps integer not null default 0 check (summary_steps >= 0),
  -- The last message that the step under way summarises; of no meaning unless the run is in_flight.
  add column summarises_to_seq integer,
  drop constraint run_steps_bounded,
  add constraint run_steps_bounded check (step_number between 1 and max_steps + summary_steps);

alter table step
  -- Its request asks for a summary of the messages from context_from_seq to context_to_seq.
  add column is_summary boolean not null default false,
  -- The summary that its request shows, or goes on from.
  add column summary_to_seq integer,
  -- Tokens for the answer where the window leaves fewer than max_tokens.
  add column max_tokens_fitted integer,
  add constraint step_max_tokens_fitted check (max_tokens_fitted between 1 and max_tokens);

alter table provider_batch
  -- Some requests with their sizes, [{run_id, number, attempt, model, bytes}]: their answers say what a token is.
  add column token_samples json;

-- What a token of a model measures, learnt from answers.
create table token_calibration (
  -- The provider's name.
  model text primary key,
  project_id uuid not null references project,
  bytes_per_token double precision not null check (bytes_per_token > 0),
  samples integer not null check (samples >= 1),
  updated_at timestamptz not null default app_now()
);
`,
    )
    .execute(db);
}
