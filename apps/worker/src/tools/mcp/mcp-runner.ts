import { secretNamesIn } from '@nightshift/agent-core';
import type { McpServerRow } from '@nightshift/db';
import type { McpServer, NetHost } from '@nightshift/net-host';
import type { LazyHost } from '../lazy-host.ts';
import type { CallPool } from '../places.ts';
import { failed, type ToolRunner } from '../runner.ts';
import type { ReadSecrets } from '../secrets.ts';
import type { McpProgram } from './programs.ts';
import type { ReadMcpServer } from './server-reader.ts';

/** MCP calls under way in one worker: they wait on one event loop and cost no thread. */
const POOL: CallPool = { name: 'mcp', calls_max: 1_500, reserve: 300 };
/** Time for which a changed definition of a connected server may go unnoticed. */
const LIST_AGE_MS_MAX = 250;

export interface McpRunnerParts {
  readonly allow_private: boolean;
  readonly readSecrets: ReadSecrets;
  readonly readServer: ReadMcpServer;
  /** The operator's programs, by the name of their server. */
  readonly programs: ReadonlyMap<string, McpProgram>;
  /** Notes that a server offers other tools than those that were approved. Never throws. */
  readonly onChanged: (server: McpServerRow) => void;
  /** Default: 250. */
  readonly list_age_ms_max?: number;
}

/** Creates the runner of tools of MCP servers. */
export function createMcpRunner(
  host: LazyHost<Pick<NetHost, 'runCall' | 'close'>>,
  parts: McpRunnerParts,
): ToolRunner {
  const { allow_private, readSecrets, readServer, programs, onChanged } = parts;
  return {
    poolOf: () => POOL,
    async run(request, { signal }) {
      const { mcp } = request.source ?? {};
      if (mcp === undefined) return failed(request, 'This tool names no MCP server.');
      const row = await readServer(mcp.server_id);
      if (row === undefined)
        return failed(request, 'The MCP server of this tool was deleted; go on without the tool.');
      const server = targetOf(row, programs);
      if (server === null)
        return failed(
          request,
          `This worker has no program '${row.name}' in MCP_SERVERS_FILE; go on without the tool.`,
        );
      const secrets = await readSecrets(request.agent_id, secretNamesIn(row.headers));
      const { call_id, side_effects, idempotency_key, timeout_ms, result_char_limit } = request;
      const { runCall } = await host.get();
      const { offer_changed, ...reply } = await runCall(
        {
          ...{ kind: 'mcp', call_id, side_effects, idempotency_key, timeout_ms, result_char_limit },
          ...{ server, secrets, allow_private, arguments: request.arguments },
          list_age_ms_max: parts.list_age_ms_max ?? LIST_AGE_MS_MAX,
          tool_name: mcp.tool_name,
          definition_sha256: mcp.definition_sha256,
        },
        { signal },
      );
      if (offer_changed === true) onChanged(row);
      return reply;
    },
  };
}

/** Returns the server for the net host; null for a program that this worker does not have. */
export function targetOf(
  { name, url, headers }: Pick<McpServerRow, 'name' | 'url' | 'headers'>,
  programs: ReadonlyMap<string, McpProgram>,
): McpServer | null {
  return url === null ? (programs.get(name) ?? null) : { url, headers };
}
