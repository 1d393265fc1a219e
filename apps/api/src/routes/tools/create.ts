import { isMemoryTool, NightshiftError } from '@nightshift/agent-core';
import {
  changeTool,
  findTools,
  inTransaction,
  limitTool,
  readTool,
  registerMemoryTools,
  storeTool,
  type NewTool,
  type ToolRow,
  type Tx,
} from '@nightshift/db';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { problems } from '../../schemas/answers.ts';
import { toolInput, toolResponse, type ToolInput } from '../../schemas/tool.ts';
import { toToolLimits, toToolResponse } from '../../wire/to-tool.ts';
import { assertSecrets, prepareTool } from './uploaded.ts';

/** What an upload becomes: a tool of its own, or a built-in tool of its name with the caller's settings. */
type Upload = { readonly tool: NewTool } | { readonly builtIn: string };

/**
 * Stores an uploaded tool. An upload with the name of a built-in memory tool answers that tool: Letta's users upload their
 * own `rethink_memory`, whose source Letta's batches never ran either.
 */
export function createTool(app: App, context: Context): void {
  app.post(
    '/v1/tools',
    {
      schema: {
        operationId: 'createTool',
        summary: 'Create a tool, or update the tool with its name',
        description: UPLOADS,
        tags: ['tools'],
        headers: idempotencyHeaders,
        body: toolInput,
        response: { 200: toolResponse, ...problems },
      },
    },
    (request, reply) =>
      makeOnce(context, request, reply, {
        prepare: () => prepare(context, request.body),
        make: async (trx, upload) => ({ id: await store(trx, context.projectId, upload, request.body) }),
        show: async ({ id }) => toToolResponse(await readTool(context.db, context.projectId, id)),
      }),
  );
}

export function upsertTool(app: App, context: Context): void {
  app.put(
    '/v1/tools',
    {
      schema: {
        operationId: 'upsertTool',
        summary: 'Create a tool, or update the tool with its name',
        description: UPLOADS,
        tags: ['tools'],
        body: toolInput,
        response: { 200: toolResponse, ...problems },
      },
    },
    async ({ body }) => {
      const upload = await prepare(context, body);
      const id = await inTransaction(context.db, (trx) => store(trx, context.projectId, upload, body));
      return toToolResponse(await readTool(context.db, context.projectId, id));
    },
  );
}

const UPLOADS =
  'Python runs in a jail: the last function of the source, or the one that the schema names. Without a schema, annotations and ' +
  'docstring describe it. JavaScript and TypeScript run in a sandbox: `export function NAME`, called with its arguments in the ' +
  'order of the schema, required ones first. An HTTP tool is one request with templates. Open runs keep the tool as it was.';

/** Throws: `invalid_argument` for an upload that this server cannot run. */
async function prepare(context: Context, body: ToolInput): Promise<Upload> {
  const name = nameOf(body);
  if (isMemoryTool(name)) return { builtIn: name };
  const tool = await prepareTool(context, name, body);
  if (tool === null) throw refuse(name, body);
  await assertSecrets(context, tool);
  return { tool };
}

async function store(trx: Tx, projectId: string, upload: Upload, body: ToolInput): Promise<string> {
  const id =
    'tool' in upload
      ? await storeTool(trx, projectId, upload.tool)
      : (await adoptBuiltIn(trx, projectId, upload.builtIn, body)).id;
  if (body.limits != null) await limitTool(trx, id, toToolLimits(body.limits));
  return id;
}

async function adoptBuiltIn(trx: Tx, projectId: string, name: string, input: ToolInput): Promise<ToolRow> {
  await registerMemoryTools(trx, projectId);
  const [tool] = await findTools(trx, projectId, { names: [name], ids: [] });
  if (tool === undefined) throw refuse(name, input);
  await changeTool(trx, projectId, tool.id, {
    return_char_limit: input.return_char_limit ?? null,
    requires_approval: input.default_requires_approval ?? null,
    tags: input.tags ?? null,
    metadata: null,
  });
  const [changed = tool] = await findTools(trx, projectId, { names: [name], ids: [] });
  return changed;
}

/** Returns the schema's name, or the name of the last Python function, as in Letta. */
function nameOf(input: ToolInput): string {
  const named = input.json_schema?.name;
  if (typeof named === 'string' && named !== '') return named;
  const functions = [...(input.source_code ?? '').matchAll(/^(?:async\s+)?def\s+([A-Za-z_]\w*)\s*\(/gm)];
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
    `The tool '${name}' cannot be created: this server does not run ${language} code sent over HTTP. Send python, javascript, ` +
    "typescript or http, or use the built-in memory tools or modules in the operator's tools folder; GET /v1/tools/ lists both.";
  return new NightshiftError('invalid_argument', message, {
    fields: [{ path: '/source_code', message: 'is not run by this server' }],
  });
}
