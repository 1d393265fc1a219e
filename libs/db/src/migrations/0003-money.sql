-- The cost of a night: prompts that only grow, statistics of steps, pilots, waits with a reason.


-- ---------- Fewer round trips ----------

-- The parts whose form the provider enforces, {"tools": [names], "result_format": boolean}; null: none.
-- Kept, because another release may choose otherwise, and the requests of a run must not change.
alter table definition add column strict json check (json_typeof(strict) = 'object');
