import { sql, type RawBuilder } from 'kysely';
import { UNMERGED } from '../../fragments.ts';

/** The sums of a row of usage, in the order of `usage_day`. */
export const USAGE_SUMS = [
  'completed',
  'failed',
  'cancelled',
  'steps',
  'input_tokens',
  'output_tokens',
  'cache_write_tokens',
  'cache_read_tokens',
  'cost_nanousd',
  'unpriced_steps',
] as const;

/** The key of a row of usage. */
export const USAGE_KEY = sql`project_id, day, model, tags, schedule_id`;

const SUMS = sql.join(USAGE_SUMS.map((name) => sql`sum(u.${sql.ref(name)})::bigint as ${sql.ref(name)}`));

/**
 * Selects the use of batches `b`, or of some of their runs `r`, by UTC day, model, tags and schedule: answers and paid failures on their day, runs on the day of
 * their end. Both stay as they are once written, so the sums of a batch do not change after its end. Booked runs are left out.
 * Index: the unique (batch, ordinal), primary keys of `step` and `definition`.
 */
export function usageOf(
  condition: RawBuilder<unknown>,
  runs: RawBuilder<unknown> = sql`true`,
): RawBuilder<unknown> {
  return sql`
    select b.project_id, u.day, d.model, b.tags, b.schedule_id, ${SUMS}
      from (select id, project_id, schedule_id, usage_booked, array(select distinct t from unnest(tags) t order by t) as tags
              from batch b where ${condition}) b
     cross join lateral (
       select id, definition_id, state, ended_at from run r
        where batch_id = b.id and ordinal >= b.usage_booked and ${runs} ${UNMERGED}) r
      join definition d on d.id = r.definition_id
     cross join lateral (
       select (coalesce(s.applied_at, s.ended_at) at time zone 'UTC')::date as day,
              0 as completed, 0 as failed, 0 as cancelled, (s.applied_at is not null)::int as steps,
              s.input_tokens, s.output_tokens, s.cache_write_5m_tokens + s.cache_write_1h_tokens as cache_write_tokens,
              s.cache_read_tokens, coalesce(s.cost_nanousd, 0) as cost_nanousd, (s.cost_nanousd is null)::int as unpriced_steps
         from step s where s.run_id = r.id and s.state <> 'sealed'
       union all
       select (r.ended_at at time zone 'UTC')::date, (r.state = 'completed')::int, (r.state in ('failed', 'expired'))::int,
              (r.state = 'cancelled')::int, 0, 0, 0, 0, 0, 0, 0
        where r.ended_at is not null) u
     group by b.project_id, u.day, d.model, b.tags, b.schedule_id`;
}
