import { NightshiftError, type FieldError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/**
 * Locks an ended batch until the transaction ends (`for no key update`: settlements of its memory take turns).
 * Throws: `not_found`; `batch_running` for a batch whose runs may still write. Index: primary key.
 */
export async function lockEndedBatch(trx: Tx, projectId: string, batchId: string): Promise<void> {
  if (await lockBatch(trx, projectId, batchId)) return;
  throw new NightshiftError(
    'batch_running',
    `The batch job-${batchId} has not ended: its runs may still write.`,
  );
}

/**
 * Locks a batch like {@link lockEndedBatch}; also a batch under way if all runs of the named agents have ended.
 * Throws: `not_found`; `batch_running` with the agents whose runs may still write. Index: the unique (batch, ordinal).
 */
export async function lockBatchToSettle(
  trx: Tx,
  projectId: string,
  batchId: string,
  agentIds: readonly string[] | null,
): Promise<void> {
  if (await lockBatch(trx, projectId, batchId)) return;
  const running = `The batch job-${batchId} has not ended`;
  if (agentIds === null)
    throw new NightshiftError(
      'batch_running',
      `${running}: its runs may still write. Name agents whose runs have ended in agent_ids to settle their changes now.`,
    );
  const { rows } = await sql<{ agent_id: string }>`
    select distinct agent_id from run
     where batch_id = ${batchId} and agent_id = any(${uuidArray(agentIds)}::uuid[]) and ended_at is null
  `.execute(trx);
  const open = new Set(rows.map(({ agent_id }) => agent_id));
  const fields = agentIds.flatMap((id, index): FieldError[] =>
    open.has(id)
      ? [{ path: `/agent_ids/${index}`, message: `agent-${id} has a run that has not ended` }]
      : [],
  );
  const [first] = fields;
  if (first === undefined) return;
  throw new NightshiftError('batch_running', `${running}, and ${first.message}. Nothing was settled.`, {
    fields,
  });
}

/**
 * Locks a batch like {@link lockBatchToSettle}, for one agent; null: only the batch counts.
 * Throws: `not_found`; `batch_running` while a run of the agent may still write. Index: the unique (batch, ordinal).
 */
export async function lockAgentToSettle(
  trx: Tx,
  projectId: string,
  batchId: string,
  agentId: string | null,
): Promise<void> {
  if ((await lockBatch(trx, projectId, batchId)) || agentId === null) return;
  const { rows } = await sql`
    select from run where batch_id = ${batchId} and agent_id = ${agentId}::uuid and ended_at is null limit 1
  `.execute(trx);
  if (rows.length === 0) return;
  throw new NightshiftError(
    'batch_running',
    `The batch job-${batchId} has not ended, and agent-${agentId} has a run that may still write. Try again after its end.`,
  );
}

/** Locks a batch and returns whether it has ended. Throws: `not_found`. */
async function lockBatch(trx: Tx, projectId: string, batchId: string): Promise<boolean> {
  const batch = await trx
    .selectFrom('batch')
    .select('completed_at')
    .where('id', '=', batchId)
    .where('project_id', '=', projectId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (batch === undefined) throw new NightshiftError('not_found', `There is no batch job-${batchId}.`);
  return batch.completed_at !== null;
}
