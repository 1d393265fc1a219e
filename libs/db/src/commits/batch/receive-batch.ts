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
  const { rows } = await sql<{ now: string }>`select app_now()::text as now`.execute(trx);
  const budgeted = isLimited(batch.cap) || batch.has_capped_runs;
  const { source } = batch;
  const stored = { state: 'receiving', total: 0, accepted: 0, queued: 0, source, budgeted } as const;
  await insertBatch(trx, projectId, batch, stored, rows[0]?.now ?? '');
  const { rows: counted } = await sql<{ agents: number }>`
    with chosen as (
      insert into batch_agent (batch_id, ordinal, agent_id, project_id)
      select ${batch.id}::uuid, s.ordinal, s.id, ${projectId}::uuid
        from (${selectAgents(projectId, batch.selection)}) s
      returning 1)
    select count(*)::int as agents from chosen
  `.execute(trx);
  const agents = counted[0]?.agents ?? 0;
  await trx.updateTable('batch').set({ total: agents }).where('id', '=', batch.id).execute();
  return agents;
}
