import {
  conductOf,
  createArgumentValidator,
  fromStorable,
  isContentBlock,
  NO_TRAIL,
  planCalls,
  toolUsesOf,
  type Conduct,
  type PlannedCall,
} from '@nightshift/agent-core';
import { readAwaitingRuns, readDefinitions, type AwaitingRun, type Database } from '@nightshift/db';

const validateArguments = createArgumentValidator();

/** The calls of runs that await the caller's answer, by run: those of {@link readPlannedCalls} that have none yet. */
export async function readOpenCalls(
  db: Database,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, readonly PlannedCall[]>> {
  const runs = await readAwaitingRuns(db, runIds);
  const planned = await planAwaiting(db, runs);
  return new Map(
    [...planned].map(([id, calls]) => {
      const open = new Set(runs.get(id)?.open_tool_use_ids);
      return [id, calls.filter((call) => open.has(call.tool_use_id))];
    }),
  );
}

/**
 * The calls of a run's present step that await the caller or did, as a worker will carry them out: arguments that a tool
 * rule fixes are in them. Empty for a run in any other state than `requires_action`.
 */
export async function readPlannedCalls(db: Database, runId: string): Promise<readonly PlannedCall[]> {
  return (await planAwaiting(db, await readAwaitingRuns(db, [runId]))).get(runId) ?? [];
}

async function planAwaiting(
  db: Database,
  runs: ReadonlyMap<string, AwaitingRun>,
): Promise<ReadonlyMap<string, readonly PlannedCall[]>> {
  const ids = new Set([...runs.values()].map((run) => run.definition_id));
  const conducts = new Map(
    (await readDefinitions(db, [...ids])).map((definition) => [definition.id, conductOf(definition)]),
  );
  return new Map(
    [...runs].map(([id, run]) => {
      const conduct = conducts.get(run.definition_id);
      return [id, conduct === undefined ? [] : awaitingOf(run, conduct)];
    }),
  );
}

function awaitingOf(run: AwaitingRun, conduct: Conduct): readonly PlannedCall[] {
  const content = JSON.parse(fromStorable(run.content)) as unknown;
  const uses = toolUsesOf(Array.isArray(content) ? content.filter(isContentBlock) : []);
  const { history } = run.trail ?? NO_TRAIL;
  return planCalls(uses, conduct, history, validateArguments).filter((call) => call.awaits !== null);
}
