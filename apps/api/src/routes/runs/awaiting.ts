import {
  conductOf,
  createArgumentValidator,
  fromStorable,
  isContentBlock,
  NO_TRAIL,
  planCalls,
  toolUsesOf,
  type PlannedCall,
} from '@nightshift/agent-core';
import { readAwaitedCalls, readAwaitingRun, readDefinitions, type Database } from '@nightshift/db';

const validateArguments = createArgumentValidator();

/** Those of {@link readPlannedCalls} that the caller has not answered yet. */
export async function readOpenCalls(db: Database, runId: string): Promise<readonly PlannedCall[]> {
  const planned = await readPlannedCalls(db, runId);
  if (planned.length === 0) return [];
  const rows = await readAwaitedCalls(db, runId);
  const open = new Set(rows.flatMap((row) => (row.verdict === null ? [row.tool_use_id] : [])));
  return planned.filter((call) => open.has(call.tool_use_id));
}

/**
 * The calls of a run's present step that await the caller or did, as a worker will carry them out: arguments that a tool
 * rule fixes are in them. Empty for a run in any other state than `requires_action`.
 */
export async function readPlannedCalls(db: Database, runId: string): Promise<readonly PlannedCall[]> {
  const run = await readAwaitingRun(db, runId);
  const [definition] = run === null ? [] : await readDefinitions(db, [run.definition_id]);
  if (run === null || definition === undefined) return [];
  const content = JSON.parse(fromStorable(run.content)) as unknown;
  const uses = toolUsesOf(Array.isArray(content) ? content.filter(isContentBlock) : []);
  const { history } = run.trail ?? NO_TRAIL;
  return planCalls(uses, conductOf(definition), history, validateArguments).filter(
    (call) => call.awaits !== null,
  );
}
