import { NightshiftError } from '@nightshift/agent-core';
import { z } from 'zod';

/** A program of the operator that speaks MCP over its standard input and output. */
export interface McpProgram {
  readonly command: string;
  readonly args: readonly string[];
  /** Its environment, beside PATH. */
  readonly env: Readonly<Record<string, string>>;
}

const file = z.strictObject({
  mcpServers: z.record(
    z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, 'must be a name of letters, digits, _, . and -'),
    z.strictObject({
      command: z.string().min(1),
      args: z.array(z.string()).default([]),
      env: z.record(z.string(), z.string()).default({}),
    }),
  ),
});

/**
 * Parses the text of MCP_SERVERS_FILE.
 * Throws: `bad_configuration` with the place of the first fault, without a value.
 */
export function parseMcpPrograms(text: string): ReadonlyMap<string, McpProgram> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw bad('is not JSON');
  }
  const parsed = file.safeParse(json);
  if (parsed.success) return new Map(Object.entries(parsed.data.mcpServers));
  const [issue] = parsed.error.issues;
  throw bad(`has a fault at ${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`);
}

function bad(fault: string): NightshiftError {
  return new NightshiftError('bad_configuration', `The file of MCP_SERVERS_FILE ${fault}.`);
}
