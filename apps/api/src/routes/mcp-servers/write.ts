import { NightshiftError } from '@nightshift/agent-core';
import {
  changeMcpServer,
  createMcpServer as commitCreate,
  deleteMcpServer as commitDelete,
  inTransaction,
  listMcpServers,
  readMcpServer,
  storeMcpOffer,
} from '@nightshift/db';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { isProgram, readMcpOffer } from '../../mcp/read-offer.ts';
import { changedConfig, newConfig } from '../../mcp/server-config.ts';
import { nullAnswer, problems } from '../../schemas/answers.ts';
import { mcpServerInput, mcpServerPatch, mcpServerWithTools } from '../../schemas/mcp-server.ts';
import { serverParams, showServer } from './read.ts';

/** Most MCP servers of a project. */
const SERVERS_MAX = 100;

/** Connects to an MCP server and stores it with its tools, none of them approved. */
export function createMcpServer(app: App, context: Context): void {
  app.post(
    '/v1/mcp-servers',
    {
      config: { hidesBody: true },
      schema: {
        operationId: 'createMcpServer',
        summary: 'Add an MCP server',
        description:
          'Connects to it by streamable HTTP and reads its tools. Agents can have a tool once it is approved. A project has ' +
          `at most ${SERVERS_MAX} servers.`,
        tags: ['mcp-servers'],
        headers: idempotencyHeaders,
        body: mcpServerInput,
        response: { 200: mcpServerWithTools, ...problems },
      },
    },
    (request, reply) =>
      makeOnce(context, request, reply, {
        prepare: async () => {
          const config = newConfig(request.body);
          const { length } = await listMcpServers(context.db, context.projectId);
          if (length >= SERVERS_MAX) throw tooMany();
          return { config, offer: await readMcpOffer(context, config) };
        },
        make: async (trx, { config, offer }) => ({
          id: await commitCreate(trx, context.projectId, config, offer),
        }),
        show: ({ id }) => showServer(context, id),
      }),
  );
}

/** Changes an MCP server. Its tools are read again, and approvals stay as they are. */
export function updateMcpServer(app: App, context: Context): void {
  app.patch(
    '/v1/mcp-servers/:mcp_server_id',
    {
      config: { hidesBody: true },
      schema: {
        operationId: 'updateMcpServer',
        summary: 'Change an MCP server',
        description: 'Reads its tools again. Calls that start later use the new address and headers.',
        tags: ['mcp-servers'],
        params: serverParams,
        body: mcpServerPatch,
        response: { 200: mcpServerWithTools, ...problems },
      },
    },
    async ({ params: { mcp_server_id }, body }) => {
      const { db, projectId } = context;
      const held = await readMcpServer(db, projectId, mcp_server_id);
      if (held.url === null) throw isProgram();
      const config = changedConfig(held, body);
      const offer = await readMcpOffer(context, config);
      await inTransaction(db, async (trx) => {
        await changeMcpServer(trx, projectId, mcp_server_id, config);
        await storeMcpOffer(trx, projectId, mcp_server_id, offer);
      });
      return showServer(context, mcp_server_id);
    },
  );
}

/** Reads the tools of an MCP server again. */
export function refreshMcpServer(app: App, context: Context): void {
  app.patch(
    '/v1/mcp-servers/:mcp_server_id/refresh',
    {
      schema: {
        operationId: 'refreshMcpServer',
        summary: 'Read the tools of an MCP server again',
        description:
          'A tool that differs from its approval is `changed`, with the differences, until it is approved again.',
        tags: ['mcp-servers'],
        params: serverParams,
        response: { 200: mcpServerWithTools, ...problems },
      },
    },
    async ({ params: { mcp_server_id } }) => {
      const { db, projectId } = context;
      const offer = await readMcpOffer(context, await readMcpServer(db, projectId, mcp_server_id));
      await inTransaction(db, (trx) => storeMcpOffer(trx, projectId, mcp_server_id, offer));
      return showServer(context, mcp_server_id);
    },
  );
}

export function deleteMcpServer(app: App, context: Context): void {
  app.delete(
    '/v1/mcp-servers/:mcp_server_id',
    {
      schema: {
        operationId: 'deleteMcpServer',
        summary: 'Delete an MCP server with its tools',
        description:
          'Its tools are taken from every agent. Calls of runs in progress fail, and the model is told.',
        tags: ['mcp-servers'],
        params: serverParams,
        response: { 200: nullAnswer, ...problems },
      },
    },
    async ({ params: { mcp_server_id } }) => {
      await inTransaction(context.db, (trx) => commitDelete(trx, context.projectId, mcp_server_id));
      return null;
    },
  );
}

function tooMany(): NightshiftError {
  return new NightshiftError(
    'conflict',
    `The project already has ${SERVERS_MAX} MCP servers: delete one first.`,
  );
}
