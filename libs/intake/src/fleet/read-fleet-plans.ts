import { modelPrice, parseModelHandle, type PriceTable } from '@nightshift/agent-core';
import {
  distinctDefinitions,
  readFleetAgents,
  readRunAgents,
  requestedDefinitions,
  type Database,
  type NewRun,
  type RequestedDefinition,
  type RunAgent,
} from '@nightshift/db';
import { refuseUnfit } from '../plan-batch.ts';
import type { BatchSource } from '../prepare-batch.ts';
import { runWithTimeout } from '../run-with-timeout.ts';
import { parseFleetInput } from './fleet-input.ts';
import { planAgent, type AgentPlan, type SkipReason } from './plan-agent.ts';

/** Timeout of filling in the inputs of a portion. Unit: ms. */
const PORTION_MS_MAX = 2_000;
/** Timeout of filling in one input, after that. With it, a portion of endless inputs stays below a lease. Unit: ms. */
const AGENT_MS_MAX = 20;

/** The batch of planned runs. */
export interface FleetScope {
  readonly project_id: string;
  /** Whether the batch has a cap in dollars. */
  readonly has_cost_cap: boolean;
  readonly tick_due_at: Date | null;
}

/** The runs of some agents of a fleet. */
export interface FleetPlans {
  readonly runs: readonly NewRun[];
  /** The requested definitions and their agents, in run order. */
  readonly requested: readonly RequestedDefinition[];
  readonly agents: readonly RunAgent[];
  /** Agents without a run. */
  readonly skipped: ReadonlyMap<string, SkipReason>;
}

/** Plans the runs of up to a thousand agents from the facts as they are now. Stores nothing. */
export async function readFleetPlans(
  db: Database,
  scope: FleetScope,
  source: BatchSource,
  agentIds: readonly string[],
  prices: PriceTable,
): Promise<FleetPlans> {
  const skipped = new Map<string, SkipReason>();
  const planned: NewRun[] = [];
  const plan = await readPlanner(db, scope, source, agentIds);
  for (const [id, agentPlan] of planInTime(agentIds, plan)) {
    if ('skip' in agentPlan) skipped.set(id, agentPlan.skip);
    else planned.push(...agentPlan.runs);
  }
  const found = await readRunAgents(db, scope.project_id, distinctDefinitions(requestedDefinitions(planned)));
  const keys = requestedDefinitions(planned).map(({ key }) => key);
  const runs = planned.filter((run, index) => {
    const reason = skipReasonOf(run, found.get(keys[index] ?? ''), scope, prices);
    if (reason !== null) skipped.set(run.agent_id, reason);
    return reason === null;
  });
  const requested = requestedDefinitions(runs);
  return { runs, requested, agents: requested.flatMap(({ key }) => found.get(key) ?? []), skipped };
}

async function readPlanner(
  db: Database,
  { project_id, tick_due_at }: FleetScope,
  source: BatchSource,
  agentIds: readonly string[],
): Promise<(id: string) => AgentPlan> {
  if (source.kind === 'memory_rewrite') throw new Error('not yet');
  const input = parseFleetInput(source.input, source.cursor != null);
  const shown = { labels: input.labels, last_run: input.shows_last_run };
  const agents = await readFleetAgents(db, project_id, agentIds, shown);
  return (id) => {
    const agent = agents.get(id);
    if (agent === undefined) return { skip: 'agent_deleted' };
    return planAgent(source, input, agent, null, tick_due_at);
  };
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

function skipReasonOf(
  run: NewRun,
  agent: RunAgent | undefined,
  { has_cost_cap }: FleetScope,
  prices: PriceTable,
): SkipReason | null {
  if (agent === undefined) return 'agent_deleted';
  const isCapped = has_cost_cap || run.cap?.cost_nanousd != null;
  if (isCapped && modelPrice(prices, parseModelHandle(agent.model)?.name ?? agent.model) === null)
    return 'no_price';
  const isFit = agent.doubts === null || refuseUnfit({ shared_path: '' }, 0, agent.doubts) === null;
  return isFit ? null : 'unusable_tools';
}
