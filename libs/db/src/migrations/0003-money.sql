-- The cost of a night: prompts that only grow, statistics of steps, pilots, waits with a reason.


-- ---------- Tool calls with an unknown outcome ----------

-- A part of failed_tool_calls: interrupted calls that may have taken effect.
alter table batch_tally add column unknown_tool_calls integer not null default 0;
insert into batch_tally (batch_id, slot, project_id, unknown_tool_calls)
select r.batch_id, 0, r.project_id, count(*)
  from tool_call c join run r on r.id = c.run_id
  join step s on s.run_id = c.run_id and s.number = c.step_number and s.applied_at is not null and s.state = 'done'
 where c.state = 'unknown' group by r.batch_id, r.project_id
on conflict (batch_id, slot) do update set unknown_tool_calls = excluded.unknown_tool_calls;


-- ---------- Cursors of deleted items ----------

-- The places of deleted tools and schedules in their lists: a client that deletes while listing goes on from there.
create table deleted_item (
  id uuid primary key,
  project_id uuid not null references project,
  kind text not null check (kind in ('tool', 'schedule')),
  created_at timestamptz not null,
  deleted_at timestamptz not null default app_now()
);
