import { checkInputSchema, type JsonObject } from '@nightshift/agent-core';
import { DEFAULT_PROJECT_ID, inTransaction, registerModuleTools, type Database } from '@nightshift/db';
import type { ToolManifest } from '@nightshift/tool-host';

/** A tool that is not offered to agents, and why. */
export interface UnusableTool {
  readonly tool: string;
  readonly file: string;
  readonly reason: string;
}

/**
 * Makes the tools of the operator's modules known. One whose input schema the provider would refuse is left out: it
 * would fail every request of every agent that has it. Returns those.
 */
export async function registerTools(
  db: Database,
  manifests: readonly ToolManifest[],
): Promise<readonly UnusableTool[]> {
  const unusable: UnusableTool[] = [];
  const usable = manifests.filter(({ name, file, parameters }) => {
    const reason = checkInputSchema(parameters);
    if (reason !== null) unusable.push({ tool: name, file, reason });
    return reason === null;
  });
  await inTransaction(db, (trx) =>
    registerModuleTools(
      trx,
      DEFAULT_PROJECT_ID,
      usable.map((tool) => ({
        name: tool.name,
        description: tool.description,
        // Checked by the tool host to be JSON: it came through a pipe.
        input_schema: tool.parameters as JsonObject,
        side_effects: tool.side_effects,
        timeout_ms: tool.timeout_ms,
        return_char_limit: tool.result_char_limit,
      })),
    ),
  );
  return unusable;
}
