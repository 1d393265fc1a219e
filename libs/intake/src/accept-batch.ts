import {
  commitBatch,
  distinctDefinitions,
  readRunAgents,
  requestedDefinitions,
  type AcceptedBatch,
  type NewBatch,
  type Tx,
} from '@nightshift/db';
import { planBatch, toError, type BatchFacts, type PlannableBatch } from './plan-batch.ts';

/** A batch to accept. */
export type IntakeBatch = NewBatch & PlannableBatch;

/**
 * Accepts a batch: reads its agents, plans, commits. A change of an agent between reading and commit leads to a new plan.
 *
 * Throws the refusal of `planBatch`; nothing is stored then.
 */
export async function acceptBatch(
  trx: Tx,
  projectId: string,
  batch: IntakeBatch,
  settings: Pick<BatchFacts, 'now' | 'prices'>,
): Promise<AcceptedBatch> {
  const wishes = requestedDefinitions(batch.runs);
  const distinct = distinctDefinitions(wishes);
  for (;;) {
    const agents = await readRunAgents(trx, projectId, distinct);
    const plan = planBatch(batch, { ...settings, wishes, agents });
    if (plan.kind === 'refusal') throw toError(plan.refusal);
    const accepted = await commitBatch(trx, projectId, batch, wishes, plan.agents);
    if (accepted !== null) return accepted;
  }
}
