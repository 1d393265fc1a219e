-- An id for each worker on the wire, and requests that a worker ends once its work under way is done.
alter table worker
  add column id uuid not null default gen_random_uuid() unique,
  -- The worker sees it at its next heartbeat.
  add column drain_requested_at timestamptz;
