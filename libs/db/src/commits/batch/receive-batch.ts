import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { selectAgents, type SelectedAgents } from '../../reads/catalog/selected-agents.ts';
import { insertBatch, isLimited } from './accepted-rows.ts';
import type { NewBatch } from './new-batch.ts';

/** A batch whose runs are made later, of its source and its agents. */
export interface ReceivedBatch extends Omit<NewBatch, 'runs'> {
  readonly source: object;
  readonly selection: SelectedAgents;
  /** Whether its runs have caps of their own. */
  readonly has_capped_runs: boolean;
}

/**
 * Stores a batch as `receiving` with the agents selected now, and returns their number. The flow `accept-batch` makes the
 * runs. Locks: none. Index: as {@link selectAgents}.
 */
export async function receiveBatch(trx: Tx, projectId: string, batch: ReceivedBatch): Promise<number> {
  const { rows } = await sql<{ agents: number; now: string }>`
    with chosen as (
      insert into batch_agent (batch_id, ordinal, agent_id, project_id)
      select ${batch.id}::uuid, s.ordinal, s.id, ${projectId}::uuid
        from (${selectAgents(projectId, batch.selection)}) s
      returning 1)
    select count(*)::int as agents, app_now()::text as now from chosen
  `.execute(trx);
  const { agents = 0, now = '' } = rows[0] ?? {};
  const { source, cap, has_capped_runs } = batch;
  const budgeted = isLimited(cap) || has_capped_runs;
  const stored = { state: 'receiving', total: agents, accepted: 0, queued: 0, source, budgeted } as const;
  await insertBatch(trx, projectId, batch, stored, now);
  return agents;
}
