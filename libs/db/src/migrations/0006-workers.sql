-- Workers at work, and indexes for checks of the installation.


-- A process that takes work. It renews its row every ten seconds, and removes it when it stops.
create table worker (
  -- Its owner in leases.
  owner text primary key,
  project_id uuid not null references project,
  -- Its name in logs.
  name text not null,
  host text not null,
  pid integer not null,
  version text not null,
  started_at timestamptz not null default app_now(),
  heartbeat_at timestamptz not null default app_now(),
  -- Its module tools: a hash of the definition by name.
  tools json not null
);

create index agent_by_model on agent (project_id, model) where deleted_at is null;
