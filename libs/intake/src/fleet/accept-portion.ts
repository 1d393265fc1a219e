import type { PriceTable } from '@nightshift/agent-core';
import {
  commitAccepted,
  commitPortion,
  createEmptyBlocks,
  insertCursorSpans,
  lockAgents,
  lockConversationsOfAgents,
  lockReceivingBatch,
  placeRuns,
  readNextBatchAgents,
  shareLockAgents,
  type Lease,
  type ReceivingBatch,
  type Tx,
} from '@nightshift/db';
import type { BatchSource } from '../prepare-batch.ts';
import type { PortionReport } from '../portion-report.ts';
import { acceptRetries } from '../retry/accept-retries.ts';
import { isRetrySource } from '../retry/request.ts';
import { acceptLines } from '../upload/accept-lines.ts';
import type { LinesSource } from '../upload/staged-run.ts';
import { cursorOf, readFleetPlans } from './read-fleet-plans.ts';

/** A stored source: the body's fields about runs, and its deadline. */
type StoredSource = BatchSource & { readonly deadline?: string | null | undefined };

/** The source of a batch of agents or lines that is received in portions. */
type ReceivedSource = StoredSource | LinesSource;

/**
 * Makes the runs of the next agents, or staged lines, of a batch, or ends its accept after the last.
 * Throws: `fenced`. Locks: the batch, then agents and conversations in id order.
 */
export async function acceptPortion(
  trx: Tx,
  lease: Lease,
  { prices, agents_per_portion }: { readonly prices: PriceTable; readonly agents_per_portion: number },
): Promise<PortionReport> {
  const batch = await lockReceivingBatch(trx, lease);
  if (batch.state !== 'receiving') return { kind: 'gone' };
  const portion = await acceptNext(trx, batch, { prices, agents_per_portion });
  if (portion === null) return { kind: 'accepted', open_runs: await commitAccepted(trx, batch) };
  return { kind: 'portion', ...portion };
}

/** Makes the next runs of a batch from its source; null after the last. */
async function acceptNext(
  trx: Tx,
  batch: ReceivingBatch,
  { prices, agents_per_portion }: { readonly prices: PriceTable; readonly agents_per_portion: number },
): Promise<{ readonly agents: number; readonly runs: number } | null> {
  if (isRetrySource(batch.source))
    return acceptRetries(trx, batch, batch.source, { prices, limit: agents_per_portion });
  const source = batch.source as ReceivedSource;
  if (source.kind === 'lines')
    return acceptLines(trx, batch, source, { prices, lines_max: agents_per_portion });
  const agentIds = await readNextBatchAgents(trx, batch, agents_per_portion);
  return agentIds.length === 0 ? null : acceptAgents(trx, batch, source, agentIds, prices);
}

/** Stores the runs of the first of the agents, as many as fit. An agent that changes meanwhile is planned again. */
async function acceptAgents(
  trx: Tx,
  batch: ReceivingBatch,
  source: StoredSource,
  agentIds: readonly string[],
  prices: PriceTable,
): Promise<{ readonly agents: number; readonly runs: number }> {
  const { project_id } = batch;
  const cursor = cursorOf(source);
  await lockFleetAgents(trx, source, agentIds);
  for (;;) {
    const plans = await readFleetPlans(trx, batch, source, agentIds, prices);
    const { agents_taken, runs, requested, agents, spans, blocks, skipped } = plans;
    const before = { runs: batch.accepted, last_run_id: batch.last_run_id };
    const placed = await placeRuns(trx, project_id, runs, requested, agents, before);
    if (placed === null) continue;
    await createEmptyBlocks(trx, project_id, blocks);
    await commitPortion(trx, batch, {
      agents: agents_taken,
      deadline: source.deadline ?? null,
      placed,
      skipped: [...skipped].map(([agent_id, reason]) => ({
        ordinal: batch.agents_taken + agentIds.indexOf(agent_id),
        reason,
      })),
    });
    if (cursor !== null) {
      const given = placed.plan.flatMap(({ id, request }, index) => {
        const span = spans[index] ?? null;
        return span === null ? [] : [{ run_id: id, agent_id: request.agent_id, ...span }];
      });
      await insertCursorSpans(trx, project_id, cursor, batch.id, given);
    }
    return { agents: agents_taken, runs: runs.length };
  }
}

/**
 * Keeps agents and their new messages as they are until the commit. Messages get their numbers under the lock of their
 * conversation, so that none can slip below a span.
 */
async function lockFleetAgents(trx: Tx, source: BatchSource, agentIds: readonly string[]): Promise<void> {
  const createsBlocks = source.kind === 'memory_rewrite' && source.create_blocks === true;
  if (createsBlocks) await lockAgents(trx, agentIds);
  if (cursorOf(source) === null) return;
  if (!createsBlocks) await shareLockAgents(trx, agentIds);
  await lockConversationsOfAgents(trx, agentIds);
}
