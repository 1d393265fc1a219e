import type { WirePrefix } from '@nightshift/agent-core';
import { z } from 'zod';

/** The pattern of a uuid. */
export const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';

/** An id on the wire, `<prefix>-<uuid>`; parses to the uuid. */
export function wireId(prefix: WirePrefix) {
  return z
    .string()
    .regex(new RegExp(patternOf(prefix)), { error: ({ input }) => refusalOf(input, prefix) })
    .transform((id) => id.slice(prefix.length + 1));
}

const KINDS: Readonly<Record<WirePrefix, string>> = {
  agent: 'an agent',
  block: 'a memory block',
  tool: 'a tool',
  message: 'a message',
  run: 'a run',
  step: 'a step',
  job: 'a batch',
  batch_item: 'an item of a batch',
  conversation: 'a conversation',
  schedule: 'a schedule',
  worker: 'a worker',
  mcp_server: 'an MCP server',
  user: 'a user',
};
const ANY_ID = new RegExp(`^(${Object.keys(KINDS).join('|')})-${UUID}$`);

/** Says what is wrong with an id: it is of another kind, or it is none. */
function refusalOf(input: unknown, prefix: WirePrefix): string {
  const [id, kind] = ANY_ID.exec(String(input)) ?? [];
  if (id === undefined || kind === undefined) return `must be ${prefix}-<uuid>, in lower case`;
  return `${id} is ${KINDS[kind as WirePrefix]}; this takes ${KINDS[prefix]} (${prefix}-…)`;
}

/** An id in an answer. Its pattern is documented and not checked. */
export function shownId(prefix: WirePrefix) {
  return z.string().meta({ pattern: patternOf(prefix) });
}

function patternOf(prefix: WirePrefix): string {
  return `^${prefix}-${UUID}$`;
}

/** The only user in Letta's records. */
export const USER_ID = 'user-00000000-0000-4000-8000-000000000000';
