import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';

/** Runs past their deadline whose steps are looked up, before all runs of a provider batch are read. */
const LATE_RUNS_MAX = 200;

/**
 * True when an unsent provider batch holds an unsendable step: of a batch that no longer runs (paused, being cancelled), of
 * a run past its deadline, or ended already because its request cannot be built.
 * Its runs are read only if some batch is halted, or many runs are past their deadline. A few such runs, which may be at the
 * provider for a day, are looked up among its steps.
 * Index: `step_by_provider_batch`, `batch_open`, `run_by_deadline`, primary keys.
 */
export async function readUnsendableSteps(db: Database, providerBatchId: string): Promise<boolean> {
  const { rows } = await sql<{ unsendable: boolean }>`
    with late as materialized (
      select id from run where overdue_from <= (select app_now()) order by overdue_from limit ${LATE_RUNS_MAX + 1}::int)
    select exists (select 1 from step where provider_batch_id = ${providerBatchId}::uuid and state <> 'sealed')
        or ((exists (select 1 from batch where state in ('receiving', 'paused', 'cancelling') and completed_at is null)
             or (select count(*) from late) > ${LATE_RUNS_MAX}::int)
            and exists (
              select 1 from step s
               cross join lateral (select batch_id, overdue_from from run where id = s.run_id ${UNMERGED}) r
                join batch b on b.id = r.batch_id
               where s.provider_batch_id = ${providerBatchId}::uuid
                 and (b.state <> 'running' or r.overdue_from <= (select app_now()))))
        or exists (
              select 1 from late r
               cross join lateral (select provider_batch_id from step where run_id = r.id ${UNMERGED}) s
               where s.provider_batch_id = ${providerBatchId}::uuid) as unsendable
  `.execute(db);
  return rows[0]?.unsendable ?? false;
}
