-- Calls of tools outside any run, which callers make to try a tool. A worker takes each at most once.
create table tool_trial (
  id uuid primary key,
  project_id uuid not null references project,
  agent_id uuid not null,
  -- The tool as it was at the request.
  tool json not null check (json_typeof(tool) = 'object'),
  arguments json not null check (json_typeof(arguments) = 'object'),
  state text not null default 'waiting' check (state in ('waiting', 'running', 'ended')),
  -- Until this time a worker may take it.
  waits_until timestamptz not null,
  taken_by text,
  -- The time at which a call without a reply counts as lost.
  replies_until timestamptz,
  reply json check (json_typeof(reply) = 'object'),
  created_at timestamptz not null default app_now(),
  constraint tool_trial_taken
    check ((state = 'waiting') = (taken_by is null) and (taken_by is null) = (replies_until is null)),
  constraint tool_trial_replied check ((state = 'ended') = (reply is not null))
);
create index tool_trial_waiting on tool_trial (created_at) where state = 'waiting';
create index tool_trial_by_age on tool_trial (created_at);
