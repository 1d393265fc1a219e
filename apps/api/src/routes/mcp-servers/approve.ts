import { checkInputSchema, FINISH_TOOL, isMemoryTool, NightshiftError } from '@nightshift/agent-core';
import {
  approveMcpTools as commitApproval,
  inTransaction,
  readMcpServer,
  readMcpTools,
  type McpApproval,
  type McpToolRow,
} from '@nightshift/db';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { mcpApprovalInput, mcpServerWithTools, type McpApprovalInput } from '../../schemas/mcp-server.ts';
import { serverParams, showServer } from './read.ts';

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;

/** Approves tools of an MCP server as it offers them, so that agents can have them. */
export function approveMcpTools(app: App, context: Context): void {
  app.post(
    '/v1/mcp-servers/:mcp_server_id/approve',
    {
      schema: {
        operationId: 'approveMcpTools',
        summary: 'Approve tools of an MCP server',
        description:
          'Each becomes a tool that agents can attach, or changes it for batches accepted from now on. All are approved, or ' +
          'none. To withdraw an approval, delete the tool.',
        tags: ['mcp-servers'],
        params: serverParams,
        body: mcpApprovalInput,
        response: { 200: mcpServerWithTools, ...problems },
      },
    },
    async ({ params: { mcp_server_id }, body }) => {
      const { db, projectId } = context;
      const server = await readMcpServer(db, projectId, mcp_server_id);
      const tools = await readMcpTools(db, mcp_server_id);
      const approvals = body.tools.map((input, index) => toApproval(input, `/tools/${index}`, tools));
      assertNamesDiffer(approvals);
      await inTransaction(db, (trx) => commitApproval(trx, projectId, server, approvals));
      return showServer(context, mcp_server_id);
    },
  );
}

/** Throws: `invalid_argument` with the field. */
function toApproval(
  input: McpApprovalInput['tools'][number],
  path: string,
  tools: readonly McpToolRow[],
): McpApproval {
  const { name, definition_sha256 } = input;
  const tool = tools.find((each) => each.name === name);
  if (tool?.offered == null) throw refuse(`${path}/name`, `is no tool that the server offers: '${name}'`);
  const fault = checkInputSchema(tool.offered.input_schema);
  if (fault !== null) throw refuse(`${path}/name`, `has an input schema that no model takes: ${fault}`);
  const tool_name = input.tool_name ?? tool.tool_name ?? name;
  if (!NAME.test(tool_name))
    throw refuse(
      `${path}/tool_name`,
      'must be there: the name on the server has other characters than a-z, A-Z, 0-9, _ and -',
    );
  if (tool_name === FINISH_TOOL.name || isMemoryTool(tool_name))
    throw refuse(`${path}/tool_name`, `must not be '${tool_name}', the name of a built-in tool`);
  return {
    ...{ name, definition_sha256, tool_name, side_effects: input.side_effects ?? null },
    requires_approval: input.default_requires_approval ?? null,
    return_char_limit: input.return_char_limit ?? null,
    timeout_ms: input.timeout_ms ?? null,
  };
}

/** Throws: `invalid_argument` with the field of the second approval of a tool. */
function assertNamesDiffer(approvals: readonly McpApproval[]): void {
  const names = new Set<string>();
  for (const [index, { name }] of approvals.entries()) {
    if (names.has(name)) throw refuse(`/tools/${index}/name`, `must be there once only: '${name}'`);
    names.add(name);
  }
}

function refuse(path: string, message: string): NightshiftError {
  return new NightshiftError('invalid_argument', `${path} ${message}.`, { fields: [{ path, message }] });
}
