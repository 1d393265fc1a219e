import {
  commitBatch,
  distinctDefinitions,
  readRunAgents,
  requestedDefinitions,
  type AcceptedBatch,
  type NewBatch,
  type Tx,
} from '@nightshift/db';
import { readNamedTools } from './named-tools.ts';
import { planBatch, toError, type BatchFacts, type PlannableBatch } from './plan-batch.ts';

export type IntakeBatch = NewBatch & PlannableBatch;

/**
 * Accepts a batch: reads its agents, plans, commits. If an agent changes between read and commit, it plans again.
 * Throws: the refusal of `planBatch`, before anything is stored.
 */
export async function acceptBatch(
  trx: Tx,
  projectId: string,
  batch: IntakeBatch,
  settings: Pick<BatchFacts, 'now' | 'prices'>,
): Promise<AcceptedBatch> {
  const requested = requestedDefinitions(batch.runs);
  const distinct = distinctDefinitions(requested);
  const tools = await readNamedTools(trx, projectId, batch.runs);
  for (;;) {
    const agents = await readRunAgents(trx, projectId, distinct);
    const plan = planBatch(batch, { ...settings, requested, agents, tools });
    if (plan.kind === 'refusal') throw toError(plan.refusal);
    const accepted = await commitBatch(trx, projectId, batch, requested, plan.agents);
    if (accepted !== null) return accepted;
  }
}
