import { toWireId, type RunGroup } from '@nightshift/agent-core';
import { readNow, readSelectedAgents } from '@nightshift/db';
import {
  assertMatch,
  checkFleet,
  measureRuns,
  readFleetPlans,
  toSelection,
  type PreparedBatch,
  type PreparedFleet,
} from '@nightshift/intake';
import type { Context } from '../../context.ts';

/** Largest number of agents whose requests are measured by default; of a larger fleet these are spread evenly over it. */
const AGENTS_MEASURED_MAX = 5_000;
const AGENTS_PER_READ = 500;
const FIRST_AGENTS = 10;

/** The first requests of runs that are not stored. */
export interface MeasuredRuns {
  readonly groups: readonly RunGroup[];
  readonly runs: number;
  /** Null for requests and templates. */
  readonly fleet: {
    readonly agents: number;
    readonly first_agent_ids: string[];
    readonly measured_agents: number;
    readonly skipped: Record<string, number>;
  } | null;
}

/**
 * Measures the first requests of a fleet's runs. The figures of a sample are scaled to the fleet.
 * Throws: as storing the fleet would.
 */
export async function measureFleet(
  { db, projectId, prices }: Pick<Context, 'db' | 'projectId' | 'prices'>,
  options: PreparedBatch['options'],
  { source, labels }: PreparedFleet,
  agentsMax = AGENTS_MEASURED_MAX,
): Promise<MeasuredRuns> {
  const now = await readNow(db);
  const deadline = options.deadline ?? null;
  await checkFleet(db, projectId, { source, labels, deadline }, { now, prices });
  const agents = await readSelectedAgents(db, projectId, toSelection(source.agents));
  assertMatch(source, agents.length);
  const sample = spread(agents, agentsMax);
  const scope = {
    project_id: projectId,
    accepted_at: now,
    has_cost_cap: options.max_cost_usd != null,
    tick_due_at: null,
  };
  const groups: RunGroup[] = [];
  const skipped: Record<string, number> = {};
  let runs = 0;
  for (let from = 0; from < sample.length;) {
    const part = sample.slice(from, from + AGENTS_PER_READ);
    const plans = await readFleetPlans(db, scope, source, part, prices);
    from += plans.agents_taken;
    for (const reason of plans.skipped.values()) skipped[reason] = (skipped[reason] ?? 0) + 1;
    runs += plans.runs.length;
    groups.push(
      ...(await measureRuns({ db, projectId, prices }, { runs: plans.runs, shared_path: '/agents' })),
    );
  }
  const factor = sample.length === 0 ? 1 : agents.length / sample.length;
  const scaled = (count: number): number => Math.round(count * factor);
  return {
    groups: factor === 1 ? groups : groups.map((group) => scaleGroup(group, factor)),
    runs: scaled(runs),
    fleet: {
      agents: agents.length,
      first_agent_ids: agents.slice(0, FIRST_AGENTS).map((id) => toWireId('agent', id)),
      measured_agents: sample.length,
      skipped: Object.fromEntries(Object.entries(skipped).map(([reason, count]) => [reason, scaled(count)])),
    },
  };
}

/** Picks up to `count` items, evenly spread. */
function spread<Item>(items: readonly Item[], count: number): readonly Item[] {
  if (items.length <= count) return items;
  return Array.from(
    { length: count },
    (_, place) => items[Math.floor((place * items.length) / count)] as Item,
  );
}

function scaleGroup(group: RunGroup, factor: number): RunGroup {
  const { runs, request_bytes, input_tokens, worst_input_tokens } = group;
  return {
    ...group,
    runs: runs * factor,
    request_bytes: request_bytes * factor,
    input_tokens: input_tokens * factor,
    worst_input_tokens: worst_input_tokens * factor,
  };
}
