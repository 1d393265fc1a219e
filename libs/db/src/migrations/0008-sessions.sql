-- Browsers that are signed in, and links that sign one in.
create table session (
  -- SHA-256 of the secret that the browser or the link holds.
  hash bytea primary key,
  project_id uuid not null references project,
  kind text not null check (kind in ('browser', 'link')),
  -- SHA-256 of the API key: a session ends with its key.
  key_hash bytea not null,
  created_at timestamptz not null default app_now(),
  expires_at timestamptz not null
);

create index session_by_expiry on session (expires_at);
