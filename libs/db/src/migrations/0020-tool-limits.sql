-- ---------- Limits of tools over all workers ----------

alter table tool
  -- Calls under way at a time; null: no limit.
  add column concurrency integer check (concurrency between 1 and 10000),
  -- Calls started in a minute; null: no limit.
  add column rate_per_minute integer check (rate_per_minute between 1 and 1000000),
  add constraint tool_limits_of_worker check (
    (concurrency is null and rate_per_minute is null) or kind in ('module', 'sandbox', 'python', 'http', 'mcp'));
create index tool_limited on tool (project_id) where concurrency is not null or rate_per_minute is not null;

-- The places of a worker under the limits of a tool. Written under the lock of the tool's row.
create table tool_grant (
  tool_id uuid not null references tool on delete cascade,
  -- As in leases.
  owner text not null,
  project_id uuid not null references project,
  -- Calls that it has under way, and calls that wait.
  under_way integer not null check (under_way >= 0),
  waiting integer not null check (waiting >= 0),
  -- Calls that it may have under way; those that it has, without a concurrency limit.
  places integer not null,
  -- A dead worker's places are free from then on.
  granted_until timestamptz not null,
  constraint tool_grant_covers_calls check (places >= under_way),
  primary key (tool_id, owner)
);

-- The token bucket of a tool with a rate limit; a token is the start of a call.
create table tool_bucket (
  tool_id uuid primary key references tool on delete cascade,
  project_id uuid not null references project,
  tokens double precision not null check (tokens >= 0),
  filled_at timestamptz not null
);


-- ---------- Calls are counted as they end ----------

-- Calls with an outcome. From now on failed_tool_calls and unknown_tool_calls count the calls of open steps too.
alter table batch_tally add column ended_tool_calls integer not null default 0;
with called as (
  select r.batch_id, r.project_id, count(*) filter (where c.state in ('succeeded', 'failed', 'unknown')) as ended,
         count(*) filter (where c.state in ('failed', 'unknown')) as failed, count(*) filter (where c.state = 'unknown') as doubted
    from tool_call c join run r on r.id = c.run_id join batch b on b.id = r.batch_id
   group by r.batch_id, r.project_id),
counted as (
  select batch_id, sum(failed_tool_calls) as failed, sum(unknown_tool_calls) as doubted from batch_tally group by batch_id)
insert into batch_tally as t (batch_id, slot, project_id, ended_tool_calls, failed_tool_calls, unknown_tool_calls)
select c.batch_id, 0, c.project_id, c.ended, c.failed - coalesce(n.failed, 0), c.doubted - coalesce(n.doubted, 0)
  from called c left join counted n on n.batch_id = c.batch_id
on conflict (batch_id, slot) do update
   set ended_tool_calls = excluded.ended_tool_calls, failed_tool_calls = t.failed_tool_calls + excluded.failed_tool_calls,
       unknown_tool_calls = t.unknown_tool_calls + excluded.unknown_tool_calls;
