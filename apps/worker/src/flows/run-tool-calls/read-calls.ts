import { NO_TOOL_POLICY } from '@nightshift/agent-core';
import { readActingRuns } from '@nightshift/db';
import { callsOf, type Call } from '../../flow-parts/calls/call.ts';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import { yieldEvery } from '../../yielding.ts';

/**
 * Reads the calls of acting runs, with the known outcome of each.
 * Yields between checks of arguments, which may take long, so that the lease is renewed.
 */
export async function readCalls(
  { db, definitions }: FlowDeps,
  runIds: readonly string[],
): Promise<readonly Call[]> {
  const acting = await readActingRuns(db, runIds);
  const cached = await definitions.get(
    db,
    acting.map((run) => run.definition_id),
  );
  const yieldIfDue = yieldEvery();
  const calls: Call[] = [];
  for (const run of acting) {
    await yieldIfDue();
    calls.push(...callsOf(run, cached.get(run.definition_id)?.toolPolicy ?? NO_TOOL_POLICY));
  }
  return calls;
}
