import type { ToolChoice } from '@nightshift/agent-core';
import { readKnownTools, type Database, type NewRun } from '@nightshift/db';

/** Reads the names of stored tools among those that the choices of runs name. */
export async function readNamedTools(
  db: Database,
  projectId: string,
  runs: readonly Pick<NewRun, 'tools'>[],
): Promise<ReadonlySet<string>> {
  const choices = new Set<ToolChoice>();
  for (const { tools } of runs) if (tools != null) choices.add(tools);
  const names = new Set<string>();
  for (const { add, remove, only } of choices)
    for (const name of [...add, ...remove, ...(only ?? [])]) names.add(name);
  return readKnownTools(db, projectId, [...names]);
}
