import { listOf, recordOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { MCP_SERVER } from './examples/mcp-server.ts';
import { shownId } from './ids.ts';
import { shownTime } from './moment.ts';

const record = z.record(z.string(), z.unknown());
const headerText = z.string().max(8_192);

const serverName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, 'must be 1 to 64 letters, digits, `_`, `.` and `-`');

/** The type of a server that the API takes. */
const serverType = z.literal('streamable_http', {
  error: ({ input }) =>
    input === 'stdio'
      ? "must be 'streamable_http': programs are started by the operator, who names them in MCP_SERVERS_FILE of the workers"
      : "must be 'streamable_http'; name that endpoint of the server",
});

const configFields = {
  mcp_server_type: serverType.optional(),
  server_url: z.string().min(1).max(2_048),
  auth_header: z
    .string()
    .max(256)
    .nullish()
    .describe('Header of the token. Default: `Authorization` if `auth_token` is there.'),
  auth_token: headerText
    .nullish()
    .describe(
      'Value of that header, such as `Bearer {{secrets.NAME}}`. It must name a secret of the project.',
    ),
  custom_headers: recordOf(headerText, 50).nullish().describe('Values may hold `{{secrets.NAME}}`.'),
};

const EXAMPLE_CONFIG = {
  mcp_server_type: 'streamable_http',
  server_url: 'https://mcp.example.com/mcp',
  auth_token: 'Bearer {{secrets.TICKETS_TOKEN}}',
};

export const mcpServerInput = z
  .strictObject({
    server_name: serverName,
    config: z.strictObject(configFields).meta({ id: 'McpServerConfig' }),
  })
  .meta({ id: 'McpServerCreate', examples: [{ server_name: 'tickets', config: EXAMPLE_CONFIG }] });
export type McpServerInput = z.output<typeof mcpServerInput>;

/** A change of a server; absent fields change nothing, and `null` takes a header away. */
export const mcpServerPatch = z
  .strictObject({
    server_name: serverName.nullish(),
    config: z
      .strictObject({ ...configFields, server_url: configFields.server_url.nullish() })
      .meta({ id: 'McpServerConfigUpdate' })
      .optional(),
  })
  .meta({ id: 'McpServerUpdate', examples: [{ server_name: 'tickets' }] });
export type McpServerPatch = z.output<typeof mcpServerPatch>;

const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits, as in the tool');
const toolName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'must be 1 to 64 of a-z, A-Z, 0-9, _ and -');
const sideEffects = z.enum(['none', 'idempotent', 'once']);

export const mcpApprovalInput = z
  .strictObject({
    tools: listOf(
      z
        .strictObject({
          name: z.string().describe('Name of the tool on the server.'),
          definition_sha256: sha256.describe('Of the definition that was looked at.'),
          tool_name: toolName
            .optional()
            .describe(
              'Name that agents call it by. Default: the name it has already, or that on the server.',
            ),
          side_effects: sideEffects
            .optional()
            .describe('Whether an interrupted call may run again. Default: once, which never does.'),
          default_requires_approval: z.boolean().optional(),
          return_char_limit: z.int().min(1).max(1_000_000).optional(),
          timeout_ms: z
            .int()
            .min(1)
            .max(600_000)
            .optional()
            .describe('Timeout of a call. Unit: milliseconds. Default: 30,000.'),
        })
        .meta({ id: 'McpToolApproval' }),
      500,
    ).min(1),
  })
  .meta({
    id: 'McpToolsApprove',
    examples: [{ tools: [{ name: 'find_ticket', definition_sha256: 'a'.repeat(64), side_effects: 'none' }] }],
  });
export type McpApprovalInput = z.output<typeof mcpApprovalInput>;

/** An MCP server on the wire. */
export const mcpServerResponse = z
  .object({
    id: shownId('mcp_server'),
    server_name: z.string(),
    mcp_server_type: z.enum(['streamable_http', 'stdio']).describe('`stdio`: a program of the operator.'),
    server_url: z.string().nullable(),
    auth_header: z.string().nullable(),
    auth_token: z.string().nullable().describe('As it was sent: it names a secret.'),
    custom_headers: z.record(z.string(), z.string()),
    revision: z.string().describe('Revision of the protocol that it speaks.'),
    refreshed_at: shownTime.describe('When its tools were last read.'),
    created_at: shownTime,
    updated_at: shownTime,
  })
  .meta({ id: 'McpServer', examples: [MCP_SERVER] });
export type McpServerResponse = z.output<typeof mcpServerResponse>;

/** A tool of an MCP server on the wire. */
const mcpToolResponse = z
  .object({
    name: z.string().describe('Name on the server.'),
    state: z
      .enum(['pending', 'approved', 'changed', 'missing'])
      .describe(
        'pending: not approved. changed: offered otherwise than approved, so calls fail. missing: no longer offered.',
      ),
    tool_id: shownId('tool').nullable().describe('The tool that agents attach.'),
    tool_name: z.string().nullable(),
    side_effects: sideEffects.nullable(),
    definition: record.nullable().describe('As the server offers it. Its annotations are hints only.'),
    definition_sha256: z.string().nullable(),
    approved_sha256: z.string().nullable(),
    differences: z
      .array(
        z.object({ path: z.string(), approved: z.unknown().optional(), offered: z.unknown().optional() }),
      )
      .describe('Between the approved and the offered definition; at most 100.'),
    unusable: z.string().nullable().describe('Why it cannot be approved.'),
  })
  .meta({ id: 'McpTool' });
export type McpToolResponse = z.output<typeof mcpToolResponse>;

/** An MCP server with its tools. */
export const mcpServerWithTools = mcpServerResponse
  .extend({ tools: z.array(mcpToolResponse) })
  .meta({ id: 'McpServerWithTools', examples: [{ ...MCP_SERVER, tools: [] }] });
export type McpServerWithTools = z.output<typeof mcpServerWithTools>;
