import { modelPrice, parseModelHandle, type PriceTable } from '@nightshift/agent-core';
import {
  commitAccepted,
  commitPortion,
  distinctDefinitions,
  lockReceivingBatch,
  placeRuns,
  readFleetAgents,
  readNextBatchAgents,
  readRunAgents,
  requestedDefinitions,
  type Lease,
  type NewRun,
  type PlacedRuns,
  type ReceivingBatch,
  type RunAgent,
  type Tx,
} from '@nightshift/db';
import { refuseUnfit } from '../plan-batch.ts';
import { runWithTimeout } from '../run-with-timeout.ts';
import type { BatchSource } from '../prepare-batch.ts';
import { parseFleetInput } from './fleet-input.ts';
import { planAgent, type AgentPlan, type SkipReason } from './plan-agent.ts';

/** Agents of one portion. */
const AGENTS_PER_PORTION = 500;
/** Timeout of filling in the inputs of a portion. Unit: ms. */
const PORTION_MS_MAX = 2_000;
/** Timeout of filling in one input, after that. With it, a portion of endless inputs stays below a lease. Unit: ms. */
const AGENT_MS_MAX = 20;

/** A stored source: the body's fields about runs, and its deadline. */
export type StoredSource = BatchSource & { readonly deadline?: string | null | undefined };

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
  { prices }: { readonly prices: PriceTable },
): Promise<PortionReport> {
  const batch = await lockReceivingBatch(trx, lease);
  if (batch.state !== 'receiving') return { kind: 'gone' };
  const agentIds = await readNextBatchAgents(trx, batch, AGENTS_PER_PORTION);
  if (agentIds.length === 0) return { kind: 'accepted', open_runs: await commitAccepted(trx, batch) };
  const source = batch.source as StoredSource;
  const planned = await planPortion(trx, batch, source, agentIds);
  const skipped = new Map(planned.skipped);
  const placed = await placePlanned(trx, batch, planned.runs, { prices, skipped });
  await commitPortion(trx, batch, {
    agents: agentIds.length,
    deadline: source.deadline ?? null,
    placed,
    skipped: [...skipped].map(([agent_id, reason]) => ({
      ordinal: batch.agents_taken + agentIds.indexOf(agent_id),
      reason,
    })),
  });
  return { kind: 'portion', agents: agentIds.length, runs: placed?.plan.length ?? 0 };
}

interface PlannedPortion {
  readonly runs: readonly NewRun[];
  readonly skipped: ReadonlyMap<string, SkipReason>;
}

async function planPortion(
  trx: Tx,
  batch: ReceivingBatch,
  source: StoredSource,
  agentIds: readonly string[],
): Promise<PlannedPortion> {
  if (source.kind === 'memory_rewrite') throw new Error('not yet');
  const input = parseFleetInput(source.input, source.cursor != null);
  const agents = await readFleetAgents(trx, batch.project_id, agentIds, {
    labels: input.labels,
    last_run: input.shows_last_run,
  });
  const plan = (id: string): AgentPlan => {
    const agent = agents.get(id);
    if (agent === undefined) return { skip: 'agent_deleted' };
    return planAgent(source, input, agent, null, batch.tick_due_at);
  };
  const runs: NewRun[] = [];
  const skipped = new Map<string, SkipReason>();
  for (const [id, planned] of planInTime(agentIds, plan)) {
    if ('skip' in planned) skipped.set(id, planned.skip);
    else runs.push(...planned.runs);
  }
  return { runs, skipped };
}

/** Plans agents under a timeout for all. If that ends, each gets its own timeout, so that only endless inputs are skipped. */
function planInTime(
  agentIds: readonly string[],
  plan: (id: string) => AgentPlan,
): ReadonlyMap<string, AgentPlan> {
  const plans = new Map<string, AgentPlan>();
  const planAll = (): void => {
    for (const id of agentIds) plans.set(id, plan(id));
  };
  if (runWithTimeout(PORTION_MS_MAX, planAll)) return plans;
  for (const id of agentIds.slice(plans.size)) {
    const planOne = (): void => void plans.set(id, plan(id));
    if (!runWithTimeout(AGENT_MS_MAX, planOne)) plans.set(id, { skip: 'unusable_input' });
  }
  return plans;
}

interface PlaceSettings {
  readonly prices: PriceTable;
  /** Gets the agents that cannot run. */
  readonly skipped: Map<string, SkipReason>;
}

/** Places the runs whose agents can run. An agent that changes meanwhile is read again. */
async function placePlanned(
  trx: Tx,
  batch: ReceivingBatch,
  planned: readonly NewRun[],
  { prices, skipped }: PlaceSettings,
): Promise<PlacedRuns | null> {
  let runs = planned;
  while (runs.length > 0) {
    const requested = requestedDefinitions(runs);
    const agents = await readRunAgents(trx, batch.project_id, distinctDefinitions(requested));
    const usable = runs.filter((run, index) => {
      const reason = skipReasonOf(run, agents.get(requested[index]?.key ?? ''), batch, prices);
      if (reason !== null) skipped.set(run.agent_id, reason);
      return reason === null;
    });
    if (usable.length === runs.length) {
      const found = requested.flatMap(({ key }) => agents.get(key) ?? []);
      const before = { runs: batch.accepted, last_run_id: batch.last_run_id };
      const placed = await placeRuns(trx, batch.project_id, runs, requested, found, before);
      if (placed !== null) return placed;
    }
    runs = usable;
  }
  return null;
}

function skipReasonOf(
  run: NewRun,
  agent: RunAgent | undefined,
  batch: ReceivingBatch,
  prices: PriceTable,
): SkipReason | null {
  if (agent === undefined) return 'agent_deleted';
  const isCapped = batch.has_cost_cap || run.cap?.cost_nanousd != null;
  if (isCapped && modelPrice(prices, parseModelHandle(agent.model)?.name ?? agent.model) === null)
    return 'no_price';
  const isFit = agent.doubts === null || refuseUnfit({ shared_path: '' }, 0, agent.doubts) === null;
  return isFit ? null : 'unusable_tools';
}
