import type { NetHost } from '@nightshift/net-host';
import type { ToolHost, ToolManifest } from '@nightshift/tool-host';
import type { LazyHost } from '../lazy-host.ts';
import type { CallPool } from '../places.ts';
import type { ToolRunner } from '../runner.ts';

/** Calls of modules under way in one worker. The tool host shares its threads among them. */
const POOL: CallPool = { name: 'module', calls_max: 512, reserve: 128 };

/**
 * Creates the runner of the operator's modules. A module that exports `concurrency` waits in the net host, in a pool of its
 * own; all others run in threads of the tool host.
 */
export function createModuleRunner(
  toolHost: Pick<ToolHost, 'runCall' | 'listTools'>,
  netHost: LazyHost<Pick<NetHost, 'runCall' | 'close'>>,
): ToolRunner {
  /** Returns the manifest of a tool that waits; undefined for others. */
  const waitingTool = (name: string): ToolManifest | undefined =>
    toolHost.listTools().find((tool) => tool.name === name && tool.concurrency !== null);
  return {
    poolOf(toolName) {
      const calls_max = waitingTool(toolName)?.concurrency ?? null;
      return calls_max === null ? POOL : { name: `module ${toolName}`, calls_max, reserve: 0 };
    },
    async run(request, options) {
      const tool = waitingTool(request.tool_name);
      if (tool === undefined) return toolHost.runCall(request, options);
      const { runCall } = await netHost.get();
      return runCall({ ...request, kind: 'module', file: tool.file }, options);
    },
  };
}
