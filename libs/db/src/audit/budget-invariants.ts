import { sql } from 'kysely';
import type { Invariant } from './invariant.ts';

/** Budgets: their caps, reservations and booked costs. */
export const BUDGET_INVARIANTS: readonly Invariant[] = [
  {
    id: 'I23',
    name: 'the spending and reservations of a batch exceed its caps at most by answers above their reservation, which are counted',
    reads: 'all',
    sql: sql`
      select batch_id, max_cost_nanousd, spent_nanousd, reserved_nanousd, max_output_tokens, spent_output_tokens,
             reserved_output_tokens
        from batch_budget
       where spent_nanousd + reserved_nanousd > max_cost_nanousd + overshot_nanousd
          or spent_output_tokens + reserved_output_tokens > max_output_tokens + overshot_output_tokens`,
  },
  {
    id: 'I23b',
    name: 'a budget holds the reservations of the open steps of its batch, and has booked the cost of its answers',
    sql: sql`
      select b.id as batch_id, b.budgeted, g.reserved_nanousd, h.reserved, g.reserved_output_tokens, h.reserved_tokens,
             g.spent_nanousd, h.spent, g.spent_output_tokens, h.spent_tokens
        from batch b
        left join batch_budget g on g.batch_id = b.id
       cross join lateral (
         select coalesce(sum(s.reserved_nanousd) filter (where s.state = 'sealed'), 0)::bigint as reserved,
                coalesce(sum(s.reserved_output_tokens) filter (where s.state = 'sealed'), 0)::bigint as reserved_tokens,
                coalesce(sum(s.cost_nanousd), 0)::bigint as spent, coalesce(sum(s.output_tokens), 0)::bigint as spent_tokens,
                count(*) filter (where s.reserved_nanousd is null) as unreserved
           from run r join step s on s.run_id = r.id where r.batch_id = b.id and b.budgeted) h
       where b.budgeted <> (g.batch_id is not null)
          or (b.budgeted and (h.unreserved > 0
              or (g.reserved_nanousd, g.reserved_output_tokens, g.spent_nanousd, g.spent_output_tokens)
                 <> (h.reserved, h.reserved_tokens, h.spent, h.spent_tokens)))`,
  },
  {
    id: 'I23c',
    name: 'a run costs and writes more than its own caps only by answers above their reservation',
    sql: sql`
      select r.id as run_id, r.max_cost_nanousd, r.max_output_tokens, u.cost, u.tokens
        from run r
       cross join lateral (
         select sum(case s.state when 'sealed' then s.reserved_nanousd else s.cost_nanousd end)::bigint as cost,
                sum(case s.state when 'sealed' then s.reserved_output_tokens else s.output_tokens end)::bigint as tokens,
                coalesce(sum(greatest(0, s.cost_nanousd - s.reserved_nanousd)), 0)::bigint as overshot,
                coalesce(sum(greatest(0, s.output_tokens - s.reserved_output_tokens)), 0)::bigint as overshot_tokens
           from step s where s.run_id = r.id) u
       where u.cost > r.max_cost_nanousd + u.overshot or u.tokens > r.max_output_tokens + u.overshot_tokens`,
  },
  {
    id: 'I23d',
    name: 'runs that wait for room are found again: an open reservation will be released, or the batch is paused',
    reads: 'all',
    sql: sql`
      select g.batch_id, b.state, g.room, g.reserved_output_tokens
        from batch_budget g join batch b on b.id = g.batch_id
       where g.room = 'short' and b.state = 'running' and g.reserved_output_tokens = 0`,
  },
  {
    id: 'I24',
    name: 'a step whose line is quarantined has booked the cost in that line',
    reads: 'all',
    sql: sql`
      select l.provider_batch_id, l.line_number, l.custom_id, s.state, l.bill->'usage' as reported,
             s.input_tokens, s.output_tokens, s.cache_write_5m_tokens, s.cache_write_1h_tokens, s.cache_read_tokens
        from result_line l
        join provider_batch p on p.id = l.provider_batch_id
       cross join lateral (
         -- A custom id holds nonce, step and attempt; a step's id is its run's, with the step number in the free bits.
         select case when l.custom_id ~ '^[a-z0-9]{6,16}-[0-9a-f]{30}00-[0-9]{1,3}$'
                     then (substr(split_part(l.custom_id, '-', 2), 1, 26) || '000000')::uuid end as run_id) o
        join step s on s.run_id = o.run_id and s.provider_batch_id = p.id
         and l.custom_id = p.nonce || '-' || substr(replace(s.run_id::text, '-', ''), 1, 26) || lpad(to_hex(s.number), 4, '0')
                           || '00-' || s.attempt
       where l.bill is not null and l.reason in ('unreadable', 'unusable', 'too_long')
         -- A step that another pass could read is settled by that pass.
         and (s.state = 'lost' or (s.state = 'errored' and s.error->>'type' in ('unreadable', 'unusable', 'poison')))
         -- Of two such lines of a step, only the first is booked.
         and not exists (
           select 1 from result_line b
            where b.provider_batch_id = l.provider_batch_id and b.custom_id = l.custom_id
              and ((b.bill->'usage'->>'input_tokens')::int, (b.bill->'usage'->>'output_tokens')::int,
                   (b.bill->'usage'->>'cache_write_5m_tokens')::int, (b.bill->'usage'->>'cache_write_1h_tokens')::int,
                   (b.bill->'usage'->>'cache_read_tokens')::int)
                = (s.input_tokens, s.output_tokens, s.cache_write_5m_tokens, s.cache_write_1h_tokens, s.cache_read_tokens))`,
  },
];
