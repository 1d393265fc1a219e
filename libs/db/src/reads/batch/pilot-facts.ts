import type { PilotFacts, PilotRun, PilotSettings } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { UNMERGED } from '../../fragments.ts';

/**
 * Reads the settings, the cap and the runs of a batch's pilot. Every paid attempt counts towards its run.
 * Throws: for a batch without a pilot. Index: the unique (batch, ordinal), primary keys of `step` and `batch_budget`.
 */
export async function readPilotFacts(
  db: Database,
  batchId: string,
): Promise<Pick<PilotFacts, 'settings' | 'cap' | 'runs'>> {
  const { rows } = await sql<{
    settings: PilotSettings | null;
    max_cost_nanousd: number | null;
    max_output_tokens: number | null;
  }>`
    select b.pilot as settings, g.max_cost_nanousd, g.max_output_tokens
      from batch b left join batch_budget g on g.batch_id = b.id where b.id = ${batchId}::uuid
  `.execute(db);
  const [batch] = rows;
  if (batch?.settings == null) throw new Error(`The batch ${batchId} has no pilot.`);
  const { rows: runs } = await sql<PilotRun>`
    select r.state, r.stop_reason, r.error, s.steps, s.output_tokens, s.cost_nanousd
      from (select id, unnest(pilot_ordinals) as ordinal from batch where id = ${batchId}::uuid) p
     cross join lateral (
       select id, state, stop_reason, error->>'message' as error from run
        where batch_id = p.id and ordinal = p.ordinal ${UNMERGED}) r
     cross join lateral (
       select count(*) filter (where applied_at is not null)::int as steps,
              coalesce(sum(output_tokens), 0)::bigint as output_tokens,
              case when count(*) = count(cost_nanousd) then coalesce(sum(cost_nanousd), 0)::bigint end as cost_nanousd
         from step where run_id = r.id ${UNMERGED}) s
     order by p.ordinal
  `.execute(db);
  const { settings, max_cost_nanousd, max_output_tokens } = batch;
  return { settings, cap: { cost_nanousd: max_cost_nanousd, output_tokens: max_output_tokens }, runs };
}
