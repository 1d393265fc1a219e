import { isMemoryTool, NightshiftError } from '@nightshift/agent-core';
import { changeTool, findTools, inTransaction, registerMemoryTools, type ToolRow } from '@nightshift/db';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { toolInput, toolResponse, type ToolInput } from '../../schemas/tool.ts';
import { toToolResponse } from '../../wire/to-tool.ts';

/**
 * Accepts an upload only if it has the name of a built-in tool, and answers the built-in tool. Uploaded code is never run:
 * Letta's users upload their own `rethink_memory`, whose source Letta's batches never ran either.
 */
export function createTool(app: App, context: Context): void {
  app.post(
    '/v1/tools',
    {
      schema: {
        operationId: 'createTool',
        summary: 'Create a tool, or update the tool with its name',
        tags: ['tools'],
        body: toolInput,
        response: { 200: toolResponse, ...problems },
      },
    },
    async (request) => toToolResponse(await adoptBuiltIn(context, request.body)),
  );
}

export function upsertTool(app: App, context: Context): void {
  app.put(
    '/v1/tools',
    {
      schema: {
        operationId: 'upsertTool',
        summary: 'Create a tool, or update the tool with its name',
        tags: ['tools'],
        body: toolInput,
        response: { 200: toolResponse, ...problems },
      },
    },
    async (request) => toToolResponse(await adoptBuiltIn(context, request.body)),
  );
}

async function adoptBuiltIn(context: Context, input: ToolInput): Promise<ToolRow> {
  const name = nameOf(input);
  if (!isMemoryTool(name)) throw refuse(name, input);
  return inTransaction(context.db, async (trx) => {
    await registerMemoryTools(trx, context.projectId);
    const [tool] = await findTools(trx, context.projectId, { names: [name], ids: [] });
    if (tool === undefined) throw refuse(name, input);
    await changeTool(trx, context.projectId, tool.id, {
      return_char_limit: input.return_char_limit ?? null,
      requires_approval: input.default_requires_approval ?? null,
      tags: input.tags ?? null,
      metadata: null,
    });
    const [changed = tool] = await findTools(trx, context.projectId, { names: [name], ids: [] });
    return changed;
  });
}

/** Returns the schema's name, or the name of the last Python function, as in Letta. */
function nameOf(input: ToolInput): string {
  const named = input.json_schema?.name;
  if (typeof named === 'string' && named !== '') return named;
  const functions = [...input.source_code.matchAll(/^(?:async\s+)?def\s+([A-Za-z_]\w*)\s*\(/gm)];
  const [, last = ''] = functions.at(-1) ?? [];
  if (last !== '') return last;
  const message = 'needs a name';
  throw new NightshiftError('invalid_argument', 'The tool has no name: set json_schema.name.', {
    fields: [{ path: '/json_schema/name', message }],
  });
}

function refuse(name: string, input: ToolInput): NightshiftError {
  const language = input.source_type ?? 'python';
  const message =
    `The tool '${name}' cannot be created: this server does not run ${language} code sent over HTTP. Use the built-in ` +
    "memory tools or modules in the operator's tools folder; GET /v1/tools/ lists both.";
  return new NightshiftError('invalid_argument', message, {
    fields: [{ path: '/source_code', message: 'is not run by this server' }],
  });
}
