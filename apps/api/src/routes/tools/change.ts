import { isDeepStrictEqual } from 'node:util';
import { NightshiftError } from '@nightshift/agent-core';
import {
  changeTool,
  deleteTool as commitDelete,
  inTransaction,
  limitTool,
  readTool,
  storeTool,
  type NewTool,
  type ToolRow,
} from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { nullAnswer, problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { toolPatch, toolResponse, type ToolPatch } from '../../schemas/tool.ts';
import { toToolLimits, toToolResponse } from '../../wire/to-tool.ts';
import { assertSecrets, changedUpload, isUploaded, prepareTool } from './uploaded.ts';

/**
 * Changes a tool. Of a built-in or module tool only the result limit, the limits over all workers, approval, tags and metadata; code, schema and description are
 * fixed by it.
 */
export function updateTool(app: App, context: Context): void {
  app.patch(
    '/v1/tools/:tool_id',
    {
      schema: {
        operationId: 'updateTool',
        summary: 'Change a tool',
        tags: ['tools'],
        params: z.object({ tool_id: wireId('tool') }),
        body: toolPatch,
        response: { 200: toolResponse, ...problems },
      },
    },
    async (request) => {
      const { tool_id } = request.params;
      const { body } = request;
      const held = await readTool(context.db, context.projectId, tool_id);
      const upload = isUploaded(held) ? await prepareChange(context, held, body) : null;
      if (upload === null) assertChangeable(held, body);
      await inTransaction(context.db, async (trx) => {
        if (upload !== null) await storeTool(trx, context.projectId, upload, held);
        else
          await changeTool(trx, context.projectId, tool_id, {
            return_char_limit: body.return_char_limit ?? null,
            requires_approval: body.default_requires_approval ?? null,
            tags: body.tags ?? null,
            metadata: body.metadata_ ?? null,
          });
        if (body.limits != null) await limitTool(trx, tool_id, toToolLimits(body.limits));
      });
      return toToolResponse(await readTool(context.db, context.projectId, tool_id));
    },
  );
}

/** Checks a change of an uploaded tool and returns the whole tool. Its name and the form of its source stay. */
async function prepareChange(context: Context, tool: ToolRow, patch: ToolPatch): Promise<NewTool> {
  const refused = [
    ...(patch.source_type != null && patch.source_type !== tool.source_type ? ['source_type'] : []),
    ...(patch.json_schema?.['name'] != null && patch.json_schema['name'] !== tool.name
      ? ['json_schema/name']
      : []),
  ].map((name) => ({ path: `/${name}`, message: 'cannot be changed; upload another tool' }));
  const [first] = refused;
  if (first !== undefined)
    throw new NightshiftError('invalid_argument', `${first.path} ${first.message}.`, { fields: refused });
  const prepared = await prepareTool(context, tool.name, changedUpload(tool, patch));
  if (prepared === null) throw new Error(`Tool ${tool.name} is no uploaded tool.`);
  await assertSecrets(context, prepared);
  return { ...prepared, metadata: patch.metadata_ ?? null };
}

/** Fields that a caller may only send back unchanged. */
const FIXED = [
  'source_code',
  'source_type',
  'description',
  'json_schema',
  'enable_parallel_execution',
] as const;
/** Fields of uploaded tools alone. */
const OF_UPLOADS = ['side_effects', 'timeout_ms', 'network', 'secrets', 'http'] as const;
const REQUIREMENTS = ['pip_requirements', 'npm_requirements'] as const;

function assertChangeable(tool: ToolRow, patch: ToolPatch): void {
  const owner =
    tool.kind === 'memory' || tool.kind === 'finish'
      ? 'built in'
      : tool.kind === 'mcp'
        ? 'a tool of an MCP server, whose approval sets it'
        : "part of the operator's modules";
  const held = toToolResponse(tool);
  const fields = [
    ...(patch.args_json_schema != null ? ['args_json_schema'] : []),
    ...FIXED.filter((name) => patch[name] != null && !isDeepStrictEqual(patch[name], held[name])),
    ...REQUIREMENTS.filter((name) => (patch[name] ?? []).length > 0),
    ...OF_UPLOADS.filter((name) => patch[name] != null),
  ].map((name) => ({ path: `/${name}`, message: `cannot be changed: '${tool.name}' is ${owner}` }));
  const [first] = fields;
  if (first !== undefined) {
    throw new NightshiftError('invalid_argument', `${first.path} ${first.message}.`, { fields });
  }
}

export function deleteTool(app: App, context: Context): void {
  app.delete(
    '/v1/tools/:tool_id',
    {
      schema: {
        operationId: 'deleteTool',
        summary: 'Delete a tool and take it from every agent',
        description:
          'Runs in progress keep it. A built-in tool returns when a new agent names it, a module tool when a worker ' +
          'starts. Agents that had the tool stay without it.',
        tags: ['tools'],
        params: z.object({ tool_id: wireId('tool') }),
        response: { 200: nullAnswer, ...problems },
      },
    },
    async (request) => {
      await inTransaction(context.db, (trx) => commitDelete(trx, context.projectId, request.params.tool_id));
      return null;
    },
  );
}
