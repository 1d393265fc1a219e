-- The cost of a night: prompts that only grow, statistics of steps, pilots, waits with a reason.


-- ---------- Pilots ----------

-- A batch with a pilot sends a sample of its runs first, alone.
alter table batch
  -- Its settings; null: no pilot.
  add column pilot json,
  -- running: its runs go alone. waiting: they have ended, the batch waits for a resume. stopped: they have ended and paused
  -- the batch, or the batch ended before the other runs went. passed: the other runs go.
  add column pilot_state text,
  -- Places of its runs in the batch; null until all runs are stored.
  add column pilot_ordinals integer[],
  add column pilot_ended_at timestamptz,
  -- Costs, ends and the projection of its runs, once they have ended.
  add column pilot_result json,
  add constraint batch_pilot_state check (pilot_state in ('running','waiting','stopped','passed')),
  add constraint batch_pilot_complete check (
    (pilot is null) = (pilot_state is null)
    and (pilot_state is not null or num_nulls(pilot_ordinals, pilot_ended_at, pilot_result) = 3)
    and (pilot_ended_at is null) = (pilot_result is null)
    and (pilot_state not in ('waiting','passed') or pilot_ended_at is not null)),
  add constraint batch_pilot_fits_state check (
    case pilot_state when 'running' then state in ('receiving','running','paused') when 'waiting' then state = 'paused'
                     when 'stopped' then state not in ('receiving','running') else true end);
