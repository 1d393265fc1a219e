-- The cost of a night: prompts that only grow, statistics of steps, pilots, waits with a reason.


-- ---------- Cursors of deleted items ----------

-- The places of deleted tools and schedules in their lists: a client that deletes while listing goes on from there.
create table deleted_item (
  id uuid primary key,
  project_id uuid not null references project,
  kind text not null check (kind in ('tool', 'schedule')),
  created_at timestamptz not null,
  deleted_at timestamptz not null default app_now()
);
