import {
  toolPolicyOf,
  createArgumentValidator,
  fromStorable,
  isContentBlock,
  NO_TRAIL,
  planCalls,
  toolUsesOf,
  type ToolPolicy,
  type PlannedCall,
} from '@nightshift/agent-core';
import { readAwaitingRuns, readDefinitions, type AwaitingRun, type Database } from '@nightshift/db';
import { mapYielding } from '../../yielding.ts';

const validateArguments = createArgumentValidator();

/**
 * Returns the calls of {@link readPlannedCalls} that still lack the caller's answer, by run. Yields to other requests between
 * runs, so no transaction may be open.
 */
export async function readOpenCalls(
  db: Database,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, readonly PlannedCall[]>> {
  const runs = await readAwaitingRuns(db, runIds);
  const policies = await readToolPolicies(db, runs);
  const calls = await mapYielding([...runs], ([id, run]) => {
    const open = new Set(run.open_tool_use_ids);
    return [id, awaitingOf(run, policies).filter((call) => open.has(call.tool_use_id))] as const;
  });
  return new Map(calls);
}

/**
 * Returns the calls of a run's present step that need or needed the caller, as a worker will execute them. Includes arguments
 * fixed by tool rules. Empty unless the run is in `requires_action`.
 */
export async function readPlannedCalls(db: Database, runId: string): Promise<readonly PlannedCall[]> {
  const runs = await readAwaitingRuns(db, [runId]);
  const policies = await readToolPolicies(db, runs);
  const run = runs.get(runId);
  return run === undefined ? [] : awaitingOf(run, policies);
}

/** Reads the tool policies of the runs, by definition. */
async function readToolPolicies(
  db: Database,
  runs: ReadonlyMap<string, AwaitingRun>,
): Promise<ReadonlyMap<string, ToolPolicy>> {
  const ids = new Set([...runs.values()].map((run) => run.definition_id));
  const definitions = await readDefinitions(db, [...ids]);
  return new Map(definitions.map((definition) => [definition.id, toolPolicyOf(definition)]));
}

function awaitingOf(run: AwaitingRun, policies: ReadonlyMap<string, ToolPolicy>): readonly PlannedCall[] {
  const toolPolicy = policies.get(run.definition_id);
  if (toolPolicy === undefined) return [];
  const content = JSON.parse(fromStorable(run.content)) as unknown;
  const uses = toolUsesOf(Array.isArray(content) ? content.filter(isContentBlock) : []);
  const { history } = run.trail ?? NO_TRAIL;
  return planCalls(uses, toolPolicy, history, validateArguments).filter((call) => call.awaits !== null);
}
