import type { Nightshift } from '@nightshift/client';
import { NightshiftApiError, NightshiftUnreachableError } from '@nightshift/client';
import {
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type Tool as ListedTool,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { CommandError, failureOf } from '../failure.ts';
import { fit } from './bounds.ts';
import { createConfirmations, type Confirmations } from './confirmations.ts';
import type { Answer, Tool, WritingTool } from './tool.ts';
import { TOOLS } from './tools.ts';

export interface McpOptions {
  readonly client: Nightshift;
  readonly version: string;
  /** True: writing tools are listed and act. */
  readonly canWrite: boolean;
  readonly warn: (line: string) => void;
  /** Ends the server. */
  readonly signal: AbortSignal;
}

const INSTRUCTIONS =
  'Nightshift runs fleets of LLM agents through message batches. Reading tools change nothing. A writing tool without ' +
  'confirm is a dry run: show its answer to the user, and call it again with its confirm token only if they agree.';

const confirm = z
  .string()
  .exactOptional()
  .describe('Token of the dry run with the same arguments. Without it the call is a dry run.');

/** Serves the tools on stdin and stdout until stdin ends or the signal is aborted. */
export async function serveTools(options: McpOptions): Promise<void> {
  const confirmations = createConfirmations();
  const ended = Promise.withResolvers<void>();
  const end = (): void => ended.resolve();
  process.stdin.once('end', end).once('close', end);
  options.signal.addEventListener('abort', end);
  const served = serveStdio(() => createServer(options, confirmations), {
    onerror: (error) => options.warn(error.message),
  });
  if (!options.signal.aborted) await ended.promise;
  await served.close();
}

function createServer(options: McpOptions, confirmations: Confirmations): McpServer {
  const { version, canWrite } = options;
  const mcp = new McpServer(
    { name: 'nightshift', version },
    { capabilities: { tools: {} }, instructions: INSTRUCTIONS },
  );
  const listed = TOOLS.filter(({ kind }) => canWrite || kind === 'reading').map(describe);
  mcp.server.setRequestHandler('tools/list', () => ({ tools: listed }));
  mcp.server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
    const tool = TOOLS.find(({ name }) => name === params.name);
    if (tool === undefined)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${params.name}.`);
    try {
      return resultOf(await call(tool, params.arguments ?? {}, options, confirmations, mcpReq.signal));
    } catch (error) {
      return { isError: true, content: [{ type: 'text', text: failureOf(error).message }] };
    }
  });
  return mcp;
}

function describe(tool: Tool): ListedTool {
  const isReading = tool.kind === 'reading';
  const input = isReading ? tool.input : tool.input.extend({ confirm });
  const inputSchema = z.toJSONSchema(input.strict(), { io: 'input' }) as ListedTool['inputSchema'];
  return {
    name: tool.name,
    description: isReading
      ? tool.description
      : `${tool.description} Without confirm: a dry run, which answers a token.`,
    inputSchema,
    annotations: {
      readOnlyHint: isReading,
      destructiveHint: !isReading && tool.isDestructive,
      idempotentHint: isReading,
      openWorldHint: false,
    },
  };
}

function call(
  tool: Tool,
  given: Readonly<Record<string, unknown>>,
  { client, canWrite }: McpOptions,
  confirmations: Confirmations,
  signal: AbortSignal,
): Promise<Answer> {
  if (tool.kind === 'reading') return tool.read(client, given, signal);
  if (!canWrite)
    throw new CommandError(
      `${tool.name} changes things, and this server only reads. Start it as nightshift mcp --write to allow it.`,
    );
  const { confirm: token, ...input } = given;
  if (token === undefined) return tryOut(tool, client, input, confirmations);
  if (typeof token !== 'string') throw new CommandError('confirm is no text. Give the token of the dry run.');
  return act(tool, client, input, confirmations, token);
}

async function tryOut(
  tool: WritingTool,
  client: Nightshift,
  given: unknown,
  confirmations: Confirmations,
): Promise<Answer> {
  const input = tool.parse(given);
  const { text, data, state } = await tool.dryRun(client, input);
  const { token, expiresAt } = confirmations.issue({ tool: tool.name, input, state });
  return {
    text: `${text} Nothing was done. To do it, call ${tool.name} again with the same arguments and confirm: "${token}".`,
    data: { is_dry_run: true, confirm: token, confirm_expires_at: expiresAt, ...data },
  };
}

async function act(
  tool: WritingTool,
  client: Nightshift,
  given: unknown,
  confirmations: Confirmations,
  token: string,
): Promise<Answer> {
  const input = tool.parse(given);
  const { wasSent } = confirmations.check(token, { tool: tool.name, input });
  const state = wasSent ? null : (await tool.dryRun(client, input)).state;
  const seen = { tool: tool.name, input, state };
  confirmations.take(token, seen);
  try {
    return await tool.act(client, input, token);
  } catch (error) {
    // It may have acted: the same token repeats it under the same Idempotency-Key.
    if (isOpen(error)) confirmations.giveBack(token, seen);
    throw error;
  }
}

/** Tells whether the outcome of a request is not known. */
function isOpen(error: unknown): boolean {
  return (
    error instanceof NightshiftUnreachableError ||
    (error instanceof NightshiftApiError && error.status >= 500)
  );
}

/** The facts are in the text too, for clients that know no structured content. */
function resultOf({ text, data }: Answer): CallToolResult {
  const facts = fit(data) as Record<string, unknown>;
  return {
    content: [
      { type: 'text', text },
      { type: 'text', text: JSON.stringify(facts) },
    ],
    structuredContent: facts,
  };
}
