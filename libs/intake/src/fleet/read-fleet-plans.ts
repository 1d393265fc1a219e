import { modelPrice, parseModelHandle, type PriceTable } from '@nightshift/agent-core';
import {
  distinctDefinitions,
  readCursors,
  readFleetAgents,
  readRunAgents,
  requestedDefinitions,
  type CursorReading,
  type Database,
  type FleetAgent,
  type FleetFacts,
  type NewRun,
  type RequestedDefinition,
  type RunAgent,
} from '@nightshift/db';
import { refuseUnfit, unpricedServerTool } from '../plan-batch.ts';
import type { BatchSource } from '../prepare-batch.ts';
import { planRewrite, REWRITE_CURSOR_DEFAULT } from '../rewrite/plan-rewrite.ts';
import { runWithTimeout } from '../run-with-timeout.ts';
import { parseFleetInput } from './fleet-input.ts';
import { planAgent, sharedRun, type AgentPlan, type SkipReason, type Span } from './plan-agent.ts';

/** Timeout of filling in the inputs of a portion. Unit: ms. */
const PORTION_MS_MAX = 2_000;
/** Timeout of filling in one input, after that. With it, a portion of endless inputs stays below a lease. Unit: ms. */
const AGENT_MS_MAX = 10;
/** Bytes of new messages that are read at once, and of one agent of a fleet; a rewrite reads more of an agent in parts. */
const NEW_BYTES_MAX = 16 * 1024 * 1024;
const NEW_BYTES_PER_AGENT = { fleet: 1024 * 1024, memory_rewrite: 4 * 1024 * 1024 };

/** The batch of planned runs. */
export interface FleetScope {
  readonly project_id: string;
  /** Whether the batch has a cap in dollars. */
  readonly has_cost_cap: boolean;
  readonly accepted_at: Date;
  readonly tick_due_at: Date | null;
}

/** The runs of some agents of a fleet. */
export interface FleetPlans {
  /** The number of planned agents: fewer than asked for where their new messages are long. */
  readonly agents_taken: number;
  readonly runs: readonly NewRun[];
  /** The requested definitions and their agents, in run order. */
  readonly requested: readonly RequestedDefinition[];
  readonly agents: readonly RunAgent[];
  /** The new messages that each run is given; null for none. */
  readonly spans: readonly (Span | null)[];
  /** Labels of blocks to create, empty, before the runs. */
  readonly blocks: readonly { readonly agent_id: string; readonly label: string }[];
  /** Agents without a run. */
  readonly skipped: ReadonlyMap<string, SkipReason>;
}

/** Returns the name of the cursor under which a batch reads new messages; null for none. */
export function cursorOf(source: BatchSource): string | null {
  return source.cursor ?? (source.kind === 'memory_rewrite' ? REWRITE_CURSOR_DEFAULT : null);
}

/**
 * Plans the runs of up to a few thousand agents from the facts as they are now. Stores nothing. Under a cursor the plan holds
 * only as long as the caller has locked the agents' conversations.
 */
export async function readFleetPlans(
  db: Database,
  scope: FleetScope,
  source: BatchSource,
  askedIds: readonly string[],
  prices: PriceTable,
): Promise<FleetPlans> {
  const { agent_ids, plan: planOf } = await readPlanner(db, scope, source, askedIds);
  const plans = planInTime(agent_ids, planOf);
  const planned = [...plans.values()].flatMap((plan) => ('skip' in plan ? [] : plan.runs));
  const skipped = new Map<string, SkipReason>();
  for (const [id, plan] of plans) if ('skip' in plan) skipped.set(id, plan.skip);

  const wanted = requestedDefinitions(planned.map(({ run }) => run));
  const found = await readRunAgents(db, scope.project_id, distinctDefinitions(wanted));
  for (const [index, { run }] of planned.entries()) {
    const reason = skipReasonOf(run, found.get(wanted[index]?.key ?? ''), scope, prices);
    if (reason !== null) skipped.set(run.agent_id, reason);
  }
  const accepted = planned.flatMap(({ run, span }, index) => {
    const request = wanted[index];
    const agent = found.get(request?.key ?? '');
    return request === undefined || agent === undefined || skipped.has(run.agent_id)
      ? []
      : [{ run, span, request, agent }];
  });
  return {
    agents_taken: agent_ids.length,
    runs: accepted.map(({ run }) => run),
    requested: accepted.map(({ request }) => request),
    agents: accepted.map(({ agent }) => agent),
    spans: accepted.map(({ span }) => span),
    blocks: [...plans].flatMap(([agent_id, plan]) =>
      'skip' in plan || skipped.has(agent_id) ? [] : plan.create.map((label) => ({ agent_id, label })),
    ),
    skipped,
  };
}

/** The agents of a portion, and the plan of each. */
interface PortionPlanner {
  readonly agent_ids: readonly string[];
  readonly plan: (id: string) => AgentPlan;
}

async function readPlanner(
  db: Database,
  scope: FleetScope,
  source: BatchSource,
  askedIds: readonly string[],
): Promise<PortionPlanner> {
  const { project_id } = scope;
  const cursor = cursorOf(source);
  const bounds = {
    bytes_max: NEW_BYTES_PER_AGENT[source.kind ?? 'fleet'],
    bytes_max_together: NEW_BYTES_MAX,
  };
  const { agent_ids, readings } =
    cursor === null
      ? { agent_ids: askedIds, readings: null }
      : await readCursors(db, project_id, cursor, askedIds, bounds);
  const due = agent_ids.filter((id) => readings === null || readings.get(id)?.skip === null);
  const { facts, planOf } = plannerOf(scope, source);
  const agents = await readFleetAgents(db, project_id, due, facts);
  const least = source.agents.min_new_messages ?? 0;
  const plan = (id: string): AgentPlan => {
    const reading = readings?.get(id) ?? null;
    if (reading !== null && reading.skip !== null) return { skip: reading.skip };
    const agent = agents.get(id);
    if (agent === undefined) return { skip: 'agent_deleted' };
    if (reading !== null && !reading.is_cut && reading.messages.length < least)
      return { skip: 'too_few_new' };
    return planOf(agent, reading);
  };
  return { agent_ids, plan };
}

interface Planner {
  readonly facts: FleetFacts;
  readonly planOf: (agent: FleetAgent, reading: CursorReading | null) => AgentPlan;
}

function plannerOf(scope: FleetScope, source: BatchSource): Planner {
  if (source.kind === 'memory_rewrite') {
    return {
      facts: { system: true, labels: null, last_run: { cursor: cursorOf(source) } },
      planOf: (agent, reading) => {
        const plan = planRewrite({ agent, reading, ...scope }, source);
        if ('skip' in plan) return plan;
        const runs = plan.runs.map((run, index) => {
          const span = plan.spans[index] ?? null;
          return {
            run,
            span: span === null || reading === null ? null : { ...span, top_seq: reading.top_seq },
          };
        });
        return { runs, create: plan.create };
      },
    };
  }
  const input = parseFleetInput(source.input, source.cursor != null);
  const shared = sharedRun(source);
  return {
    facts: {
      ...{ system: false, labels: input.labels },
      last_run: input.shows_last_run ? { cursor: null } : null,
    },
    planOf: (agent, reading) => planAgent(shared, input, agent, reading, scope.tick_due_at),
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

/** Returns why a run whose agent may have changed since its check is left out; null: it is not. */
export function skipReasonOf(
  run: NewRun,
  agent: RunAgent | undefined,
  { has_cost_cap }: Pick<FleetScope, 'has_cost_cap'>,
  prices: PriceTable,
): SkipReason | null {
  if (agent === undefined) return 'agent_deleted';
  const isCapped = has_cost_cap || run.cap?.cost_nanousd != null;
  if (isCapped && modelPrice(prices, parseModelHandle(agent.model)?.name ?? agent.model) === null)
    return 'no_price';
  if (isCapped && unpricedServerTool(agent.doubts) !== null) return 'no_price';
  const isFit = agent.doubts === null || refuseUnfit({ shared_path: '' }, 0, run, agent.doubts) === null;
  return isFit ? null : 'unusable_tools';
}
