import { NightshiftError, renderHttpRequest, secretNamesIn, withoutSecrets } from '@nightshift/agent-core';
import { readSecretsFor, type McpServerConfig, type StoredOffer } from '@nightshift/db';
import { createEgress, createGuardedFetch } from '@nightshift/egress';
import { openSecrets } from '@nightshift/intake';
import { connectMcp, explainMcpError, readOffer } from '@nightshift/mcp';
import type { Context } from '../context.ts';

/** Time to connect and to list the tools. */
const TIMEOUT_MS = 20_000;
/** Longest answer of the server. Unit: bytes. */
const ANSWER_BYTES_MAX = 1024 * 1024;

const egress = createEgress();

/**
 * Connects to an MCP server with an address, and reads the tools that it offers.
 * Throws: `mcp_server_unusable` with the reason; `invalid_argument` for a secret that the project does not have.
 */
export async function readMcpOffer(
  { db, projectId, secretsKeys, toolsAllowPrivate }: Context,
  { url, headers }: McpServerConfig,
): Promise<StoredOffer> {
  if (url === null) throw isProgram();
  const names = secretNamesIn(headers);
  const open = openSecrets(await readSecretsFor(db, projectId, names, []), secretsKeys);
  const secrets = Object.fromEntries(open('', names));
  const unknown = names.find((name) => secrets[name] === undefined);
  if (unknown !== undefined) throw unknownSecret(unknown);
  const rendered = renderHttpRequest({ method: 'POST', url, headers }, {}, secrets);
  if (!rendered.ok) throw unusable(rendered.message);
  const limits = { signal: AbortSignal.timeout(TIMEOUT_MS), timeout_ms: TIMEOUT_MS };
  const fetch = createGuardedFetch(egress, {
    ...{ allow_private: toolsAllowPrivate, redirects_max: 0 },
    ...{ answer_bytes_max: ANSWER_BYTES_MAX, timeout_ms: TIMEOUT_MS },
  });
  try {
    const connection = await connectMcp({ url, headers: rendered.request.headers, fetch }, limits);
    try {
      const tools = [...(await readOffer(connection, secrets, limits)).values()];
      return { revision: withoutSecrets(connection.revision, secrets), tools };
    } finally {
      void connection.close();
    }
  } catch (error) {
    throw unusable(withoutSecrets(explainMcpError(error), secrets));
  }
}

/** Returns the error of a program of the operator, which the API cannot start. */
export function isProgram(): NightshiftError {
  return new NightshiftError(
    'conflict',
    'This MCP server is a program of the operator: the workers read its tools when they start, and MCP_SERVERS_FILE configures it.',
  );
}

function unusable(reason: string): NightshiftError {
  const hint = reason.includes('private network') ? '; TOOLS_ALLOW_PRIVATE=1 allows such addresses' : '';
  return new NightshiftError('mcp_server_unusable', `The MCP server cannot be used: ${reason}${hint}.`, {
    fields: [{ path: '/config/server_url', message: reason }],
  });
}

function unknownSecret(name: string): NightshiftError {
  const message = `names the secret ${name}, which the project does not have; store it with PUT /v1/secrets/${name}`;
  return new NightshiftError('invalid_argument', `/config ${message}.`, {
    fields: [{ path: '/config', message }],
  });
}
