import { createHash } from 'node:crypto';
import type { Tool } from '@modelcontextprotocol/client';
import type { JsonObject } from '@nightshift/agent-core';
import { definitionText, type McpDefinition } from '@nightshift/agent-core/tools/mcp-definition';
import { withoutSecrets } from '@nightshift/agent-core/tools/without-secrets';
import type { McpConnection, RequestLimits } from './connect.ts';

/** A tool as its server offers it now. */
export interface OfferedTool {
  readonly definition: McpDefinition;
  /** SHA-256 of its canonical JSON, in hexadecimal. */
  readonly sha256: string;
  /** As the client lists it, for a call. */
  readonly tool: Tool;
}

const NAME = /^[!-~]{1,128}$/;
const TOOLS_MAX = 500;
/** Maximum length of all definitions as JSON. Unit: UTF-16 code units. */
const OFFER_CHARS_MAX = 2_000_000;

/**
 * Lists the tools of a server, by name, without the values of `secrets`.
 * Throws: errors of the client; RangeError for too many or too large definitions, or two tools of one name.
 */
export async function readOffer(
  connection: Pick<McpConnection, 'listTools'>,
  secrets: Readonly<Record<string, string>>,
  limits: RequestLimits,
): Promise<ReadonlyMap<string, OfferedTool>> {
  const tools = await connection.listTools(limits);
  if (tools.length > TOOLS_MAX)
    throw new RangeError(`it offers ${tools.length} tools; at most ${TOOLS_MAX} are read`);
  const offer = new Map<string, OfferedTool>();
  let chars = 0;
  for (const tool of tools) {
    if (!NAME.test(tool.name))
      throw new RangeError('it offers a tool whose name is not 1 to 128 visible ASCII characters');
    const text = definitionText(definitionOf(tool));
    chars += text.length;
    if (chars > OFFER_CHARS_MAX)
      throw new RangeError(`the definitions of its tools have more than ${OFFER_CHARS_MAX} characters`);
    const clean = withoutSecrets(text, secrets);
    const definition = JSON.parse(clean) as McpDefinition;
    const sha256 = createHash('sha256').update(clean).digest('hex');
    if (offer.has(tool.name)) throw new RangeError('it offers two tools of one name');
    offer.set(tool.name, { definition, sha256, tool });
  }
  return offer;
}

function definitionOf(tool: Tool): McpDefinition {
  return {
    name: tool.name,
    title: tool.title ?? null,
    description: tool.description ?? '',
    input_schema: tool.inputSchema as JsonObject,
    output_schema: (tool.outputSchema ?? null) as JsonObject | null,
    annotations: (tool.annotations ?? null) as JsonObject | null,
  };
}
