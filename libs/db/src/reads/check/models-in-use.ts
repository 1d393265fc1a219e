import { sql } from 'kysely';
import type { Database } from '../../connect.ts';

/** Reads the models of agents by handle, each once, with an agent that has it. Index: `agent_by_model`, once a model. */
export async function readModelsInUse(
  db: Database,
  projectId: string,
): Promise<readonly { readonly model: string; readonly agent_id: string }[]> {
  const { rows } = await sql<{ readonly model: string; readonly agent_id: string }>`
    with recursive used as (
      (select model, id from agent where project_id = ${projectId}::uuid and deleted_at is null order by model limit 1)
      union all
      select n.model, n.id from used u cross join lateral (
        select model, id from agent
         where project_id = ${projectId}::uuid and deleted_at is null and model > u.model order by model limit 1) n)
    select model, id as agent_id from used
  `.execute(db);
  return rows;
}
