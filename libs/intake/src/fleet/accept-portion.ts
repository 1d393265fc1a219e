import type { PriceTable } from '@nightshift/agent-core';
import {
  commitAccepted,
  commitPortion,
  lockReceivingBatch,
  placeRuns,
  readNextBatchAgents,
  type Lease,
  type ReceivingBatch,
  type Tx,
} from '@nightshift/db';
import type { BatchSource } from '../prepare-batch.ts';
import { readFleetPlans } from './read-fleet-plans.ts';

/** A stored source: the body's fields about runs, and its deadline. */
type StoredSource = BatchSource & { readonly deadline?: string | null | undefined };

/** The work of one transaction. */
export type PortionReport =
  | { readonly kind: 'portion'; readonly agents: number; readonly runs: number }
  /** The batch runs now. */
  | { readonly kind: 'accepted'; readonly open_runs: number }
  /** The batch is no longer being received: a cancel came first. */
  | { readonly kind: 'gone' };

/**
 * Makes the runs of the next agents of a batch, or ends its accept after the last.
 * Throws: `fenced`. Locks: the batch, then agents and conversations in id order.
 */
export async function acceptPortion(
  trx: Tx,
  lease: Lease,
  { prices, agents_per_portion }: { readonly prices: PriceTable; readonly agents_per_portion: number },
): Promise<PortionReport> {
  const batch = await lockReceivingBatch(trx, lease);
  if (batch.state !== 'receiving') return { kind: 'gone' };
  const agentIds = await readNextBatchAgents(trx, batch, agents_per_portion);
  if (agentIds.length === 0) return { kind: 'accepted', open_runs: await commitAccepted(trx, batch) };
  const runs = await acceptAgents(trx, batch, agentIds, prices);
  return { kind: 'portion', agents: agentIds.length, runs };
}

/** Stores the runs of agents and returns their number. An agent that changes meanwhile is planned again. */
async function acceptAgents(
  trx: Tx,
  batch: ReceivingBatch,
  agentIds: readonly string[],
  prices: PriceTable,
): Promise<number> {
  const source = batch.source as StoredSource;
  for (;;) {
    const { runs, requested, agents, skipped } = await readFleetPlans(trx, batch, source, agentIds, prices);
    const before = { runs: batch.accepted, last_run_id: batch.last_run_id };
    const placed = await placeRuns(trx, batch.project_id, runs, requested, agents, before);
    if (placed === null) continue;
    await commitPortion(trx, batch, {
      agents: agentIds.length,
      deadline: source.deadline ?? null,
      placed,
      skipped: [...skipped].map(([agent_id, reason]) => ({
        ordinal: batch.agents_taken + agentIds.indexOf(agent_id),
        reason,
      })),
    });
    return runs.length;
  }
}
