import { checkHttpTool, NightshiftError, type FieldError } from '@nightshift/agent-core';
import type { McpServerConfig, McpServerRow } from '@nightshift/db';
import type { McpServerInput, McpServerPatch } from '../schemas/mcp-server.ts';

/** Names of headers whose value is a secret. */
const SECRET_HEADER = /auth|token|secret|key|cookie|password/i;
const SECRET = /\{\{\s*secrets\./;

/** Returns the configuration of a new server. Throws: `invalid_argument` with the fields. */
export function newConfig({ server_name, config }: McpServerInput): McpServerConfig {
  return checked(server_name, config.server_url, config);
}

/** Returns the configuration of a changed server. Throws: `invalid_argument` with the fields. */
export function changedConfig(
  held: McpServerRow,
  { server_name, config = {} }: McpServerPatch,
): McpServerConfig {
  const { auth_header: name, headers } = held;
  const auth_header = config.auth_header === undefined ? name : config.auth_header;
  const auth_token = config.auth_token === undefined && name !== null ? headers[name] : config.auth_token;
  const custom = Object.entries(headers).filter(([each]) => each !== name);
  return checked(server_name ?? held.name, config.server_url ?? held.url ?? '', {
    auth_header: auth_token == null && config.auth_header === undefined ? null : auth_header,
    auth_token,
    custom_headers: config.custom_headers === undefined ? Object.fromEntries(custom) : config.custom_headers,
  });
}

function checked(
  name: string,
  url: string,
  { auth_header, auth_token, custom_headers }: Omit<McpServerInput['config'], 'server_url'>,
): McpServerConfig {
  const custom = custom_headers ?? {};
  const header = auth_token == null ? (auth_header ?? null) : (auth_header ?? 'Authorization');
  const headers = { ...custom, ...(header === null ? {} : { [header]: auth_token ?? '' }) };
  const faults: FieldError[] = [];
  if (auth_token == null && header !== null)
    faults.push({ path: '/config/auth_token', message: 'must be there, because auth_header is' });
  if (header !== null && Object.keys(custom).some((each) => each.toLowerCase() === header.toLowerCase()))
    faults.push({
      path: '/config/custom_headers',
      message: `must not hold ${header}, the header of the token`,
    });
  for (const [each, text] of Object.entries(headers))
    if (text !== '' && (each === header || SECRET_HEADER.test(each)) && !SECRET.test(text))
      faults.push({ path: placeOf(each, header), message: PLAIN_SECRET });
  const schema = { type: 'object', properties: {}, additionalProperties: false };
  for (const { path, message } of checkHttpTool({ method: 'POST', url, headers }, schema)) {
    const [, part, headerName = ''] = path.split('/');
    faults.push({ path: part === 'url' ? '/config/server_url' : placeOf(headerName, header), message });
  }
  const [first] = faults;
  if (first !== undefined)
    throw new NightshiftError('invalid_argument', `${first.path} ${first.message}.`, { fields: faults });
  return { name, url, headers, auth_header: header };
}

const PLAIN_SECRET =
  'holds a secret in plain text; store it with PUT /v1/secrets/NAME and write {{secrets.NAME}} in its place';

function placeOf(header: string, authHeader: string | null): string {
  return header === authHeader ? '/config/auth_token' : `/config/custom_headers/${header}`;
}
