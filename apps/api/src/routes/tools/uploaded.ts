import { createHash } from 'node:crypto';
import {
  checkHttpTool,
  FINISH_TOOL,
  isMemoryTool,
  NightshiftError,
  secretNamesIn,
  toStorableText,
  type HttpTool,
  type JsonObject,
  type ToolSource,
} from '@nightshift/agent-core';
import { readKnownSecretNames, type NewTool, type ToolRow } from '@nightshift/db';
import { checkSource } from '@nightshift/intake';
import type { Context } from '../../context.ts';
import type { ToolInput, ToolPatch } from '../../schemas/tool.ts';
import { readPython } from './python.ts';
import { refuse } from './refuse.ts';
import { schemaOf } from './schema-of.ts';

/** Defaults of an uploaded tool: a call of unknown code is never repeated. */
const SIDE_EFFECTS_DEFAULT = 'once';
const TIMEOUT_MS_DEFAULT = 30_000;
const RETURN_CHAR_LIMIT_DEFAULT = 50_000;

/** Forms of tools that a caller may send. */
const SOURCE_TYPES = ['http', 'javascript', 'typescript', 'python'] as const;

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;

/** Whether a tool is the user's own, so that its program may be changed over the API. */
export function isUploaded({ kind }: Pick<ToolRow, 'kind'>): boolean {
  return kind === 'sandbox' || kind === 'python' || kind === 'http';
}

/**
 * Checks an uploaded or described tool and returns it as it is stored; null for a form that this server does not run.
 * Throws: `invalid_argument` with the field and, for code, the line.
 */
export async function prepareTool(
  { openPython }: Pick<Context, 'openPython'>,
  named: string,
  input: ToolInput,
): Promise<NewTool | null> {
  const source_type = SOURCE_TYPES.find((type) => type === (input.source_type ?? 'python'));
  if (source_type === undefined) return null;
  refuseRequirements(input);
  if (source_type !== 'http' && input.http != null)
    throw refuse('/http', "belongs to a tool with source_type 'http'");
  if (source_type === 'python') {
    const { source, parameters, ...read } = await readPython(openPython, named, input);
    if (isMemoryTool(read.name))
      throw refuse('/source_code', `must not have the function '${read.name}', the name of a built-in tool`);
    return {
      ...commonPart(input, source_type, read),
      kind: 'python',
      ...codePart(input, source, parameters),
    };
  }
  const input_schema = schemaOf(input);
  const common = commonPart(input, source_type, { name: named, description: '', input_schema });
  if (source_type === 'http') return { ...common, ...httpPart(input, input_schema) };
  const source = input.source_code;
  if (source == null) throw refuse('/source_code', 'must be the code of the tool');
  const json_schema = { name: named, parameters: input_schema };
  const { code, parameters } = await checkSource({ name: named, source, source_type, json_schema });
  return { ...common, kind: 'sandbox', ...codePart(input, code, parameters) };
}

/** The caller's settings; the description of the source serves only without another. */
function commonPart(
  input: ToolInput,
  source_type: string,
  { name, description, input_schema }: Pick<NewTool, 'name' | 'description' | 'input_schema'>,
): Omit<NewTool, 'kind' | 'source_code' | 'source' | 'code'> {
  const path = input.json_schema?.['name'] == null ? '/source_code' : '/json_schema/name';
  if (!NAME.test(name)) throw refuse(path, 'must have a name of 1 to 64 of a-z, A-Z, 0-9, _ and -');
  if (name === FINISH_TOOL.name) throw refuse(path, `must not be '${name}', the name of a built-in tool`);
  return {
    name,
    description: input.description ?? descriptionOf(input) ?? description,
    input_schema,
    side_effects: input.side_effects ?? SIDE_EFFECTS_DEFAULT,
    return_char_limit: input.return_char_limit ?? RETURN_CHAR_LIMIT_DEFAULT,
    timeout_ms: input.timeout_ms ?? TIMEOUT_MS_DEFAULT,
    requires_approval: input.default_requires_approval ?? null,
    source_type,
    tags: input.tags ?? null,
    metadata: null,
  };
}

function codePart(
  input: ToolInput,
  text: string,
  parameters: readonly string[],
): Pick<NewTool, 'source_code' | 'source' | 'code'> {
  const code = toStorableText(text);
  const source: ToolSource = {
    code_sha256: createHash('sha256').update(code).digest('hex'),
    parameters,
    ...(input.network == null ? {} : { network: input.network }),
    ...(input.secrets == null ? {} : { secrets: input.secrets }),
  };
  return { source_code: input.source_code ?? null, source, code };
}

/** Throws: `invalid_argument` for a secret that neither the project nor an agent has. */
export async function assertSecrets(
  { db, projectId }: Pick<Context, 'db' | 'projectId'>,
  { source }: Pick<NewTool, 'source'>,
): Promise<void> {
  const { secrets = [], http } = source;
  const known = await readKnownSecretNames(db, projectId, secrets);
  const unknown = secrets.find((name) => !known.has(name));
  if (unknown === undefined) return;
  throw refuse(
    http === undefined ? '/secrets' : '/http/headers',
    `names the secret ${unknown}, which does not exist; store it with PUT /v1/secrets/${unknown}`,
  );
}

/** Returns a change of an uploaded tool as the upload of the whole tool. */
export function changedUpload(tool: ToolRow, patch: ToolPatch): ToolInput {
  const { source } = tool;
  const { metadata_: _, ...fields } = patch;
  // Other Python has other annotations, which are read again.
  const isReread = tool.kind === 'python' && fields.source_code != null;
  return {
    source_type: tool.source_type,
    source_code: fields.source_code ?? tool.source_code,
    json_schema: {
      name: tool.name,
      ...(isReread ? {} : { description: tool.description }),
      ...(fields.args_json_schema == null && !isReread ? { parameters: tool.input_schema } : {}),
      ...fields.json_schema,
    },
    description: fields.description,
    side_effects: fields.side_effects ?? tool.side_effects,
    timeout_ms: fields.timeout_ms ?? tool.timeout_ms,
    return_char_limit: fields.return_char_limit ?? tool.return_char_limit,
    default_requires_approval: fields.default_requires_approval,
    tags: fields.tags,
    network: fields.network ?? source?.network?.slice(),
    // Those of a request stand in its headers.
    secrets: fields.secrets ?? (tool.kind === 'http' ? undefined : source?.secrets?.slice()),
    http: fields.http ?? (source?.http as ToolInput['http']),
    pip_requirements: fields.pip_requirements,
    npm_requirements: fields.npm_requirements,
    args_json_schema: fields.args_json_schema,
  };
}

function httpPart(
  input: ToolInput,
  input_schema: JsonObject,
): Pick<NewTool, 'kind' | 'source_code' | 'source' | 'code'> {
  if (input.http == null)
    throw refuse('/http', 'must be the request: { method, url, headers, query, body, result }');
  if (input.source_code != null && input.source_code !== '')
    throw refuse('/source_code', 'must be absent: an HTTP tool has no code');
  if (input.network != null) throw refuse('/network', 'must be absent: the URL names the host');
  if (input.secrets != null)
    throw refuse('/secrets', 'must be absent: headers name the secrets as {{secrets.NAME}}');
  const http = input.http as HttpTool;
  const [problem, ...others] = checkHttpTool(http, input_schema);
  if (problem !== undefined) {
    const fields = [problem, ...others].map(({ path, message }) => ({ path: `/http${path}`, message }));
    throw new NightshiftError('invalid_argument', `/http${problem.path} ${problem.message}.`, { fields });
  }
  const secrets = secretNamesIn(http.headers ?? {});
  const source: ToolSource = {
    http: http as unknown as JsonObject,
    ...(secrets.length === 0 ? {} : { secrets }),
  };
  return { kind: 'http', source_code: null, source, code: null };
}

function descriptionOf({ json_schema }: ToolInput): string | null {
  const description = json_schema?.['description'];
  return typeof description === 'string' ? description : null;
}

function refuseRequirements(input: ToolInput): void {
  for (const name of ['pip_requirements', 'npm_requirements'] as const)
    if ((input[name] ?? []).length > 0)
      throw refuse(`/${name}`, 'must be empty: uploaded code runs without packages');
}
