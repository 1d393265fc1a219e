import { sql, type RawBuilder } from 'kysely';

/** CTEs that move the queued input of the runs in the CTE `ended` to where a retry finds it: they end before they start. */
export function keepInputOf(ended: string): RawBuilder<unknown> {
  return sql`
    gone as (
      delete from queued_input q using ${sql.id(ended)} e where q.run_id = e.id returning q.run_id, q.project_id, q.messages),
    kept as (insert into unstarted_input (run_id, project_id, messages) select run_id, project_id, messages from gone)`;
}
