import { isJsonObject, NightshiftError, type FieldError } from '@nightshift/agent-core';
import type { z } from 'zod';
import { agentInput } from '../schemas/agent.ts';
import { appendInput } from '../schemas/append.ts';
import { blockInput } from '../schemas/block.ts';
import type { UploadErrors } from '../uploads/upload-errors.ts';
import { validateAt } from '../uploads/parse-line.ts';
import { OWN_KEY, splitAgentFields, splitBlockFields, withOwnFields } from './fields.ts';
import {
  agentFile,
  legacyFile,
  type AgentFile,
  type FileMessage,
  type FileTool,
  type LegacyFile,
} from './file-schema.ts';
import { isEmpty, type LeftOut } from './left-out.ts';
import type { AgentPlan, BlockPlan, ImportOptions, ImportPlan, ToolPlan } from './plan.ts';
import { readMessages } from './read-messages.ts';

type Fields = Readonly<Record<string, unknown>>;

const NOTHING: ImportPlan = { agents: [], blocks: [], tools: [], left_out: [] };

/** Whether a value is an agent file in either format. */
export function isAgentFile(value: unknown): boolean {
  return isJsonObject(value) && ('agents' in value || 'core_memory' in value);
}

/**
 * Plans the import of an agent file in Letta's present or older format. `at` is the place of the file: empty, or a line. Adds
 * wrong fields to `errors`, with their paths.
 */
export function readFile(
  value: unknown,
  at: string,
  options: ImportOptions,
  errors: UploadErrors,
): ImportPlan {
  if (!isJsonObject(value) || !isAgentFile(value)) {
    const message = 'must hold `agents`, or `core_memory` in the older format: it is no agent file';
    errors.add({ code: 'validation_failed', fields: [{ path: at, message }], total: 1 });
    return NOTHING;
  }
  if ('agents' in value) {
    const file = checked(agentFile, value, at, errors);
    return file === null ? NOTHING : readPresent(file, at, options, errors);
  }
  const file = checked(legacyFile, value, at, errors);
  return file === null ? NOTHING : readLegacy(file, at, options, errors);
}

function checked<T>(schema: z.ZodType<T>, value: unknown, path: string, errors: UploadErrors): T | null {
  const result = validateAt(schema, value, path);
  if ('value' in result) return result.value;
  errors.add(result.errors);
  return null;
}

/** An agent of a file, in the fields of the present format. */
interface FileAgent {
  readonly path: string;
  readonly fields: Fields;
  readonly blocks: AgentPlan['blocks'];
  readonly file_tools: readonly string[];
  readonly messages: readonly FileMessage[];
  readonly secrets: Fields | null;
  readonly isOwn: boolean;
}

/** Parts of a file that do not exist here. */
const ABSENT: Readonly<Record<string, string>> = {
  groups: 'groups of agents do not exist here',
  files: 'agents have no files here',
  sources: 'agents have no files here',
  mcp_servers: 'servers of MCP are not called here',
};
const FILE_FIELDS: ReadonlySet<string> = new Set(['agents', 'blocks', 'tools', 'metadata', 'created_at']);

function readPresent(file: AgentFile, at: string, options: ImportOptions, errors: UploadErrors): ImportPlan {
  const isOwn = file.metadata?.[OWN_KEY] !== undefined;
  refuseRepeats(file, at, errors);
  const blocks = readBlocks(file.blocks ?? [], `${at}/blocks`, errors);
  const tools = (file.tools ?? []).map((tool, index) => toToolPlan(tool, `${at}/tools/${index}`));
  const toolNames = new Map((file.tools ?? []).map(({ id, name }) => [id, name]));
  const known = new Set((file.blocks ?? []).map(({ id }) => id));
  const agents = file.agents.map((agent, index): FileAgent => {
    const path = `${at}/agents/${index}`;
    refuseDangling(agent.block_ids ?? [], known, `${path}/block_ids`, 'block', errors);
    refuseDangling(agent.tool_ids ?? [], toolNames, `${path}/tool_ids`, 'tool', errors);
    return {
      path,
      fields: agent,
      blocks: (agent.block_ids ?? []).map((key, place) => ({ key, path: `${path}/block_ids/${place}` })),
      file_tools: (agent.tool_ids ?? []).flatMap((id) => toolNames.get(id) ?? []),
      messages: agent.messages ?? [],
      secrets: agent.secrets ?? agent.tool_exec_environment_variables ?? null,
      isOwn,
    };
  });
  const left_out = Object.entries(file).flatMap(([field, value]): readonly LeftOut[] => {
    if (FILE_FIELDS.has(field) || isEmpty(value)) return [];
    const reason = ABSENT[field] ?? 'this field is not known here';
    if (!Array.isArray(value)) return [{ path: `${at}/${field}`, reason }];
    return value.map((_, index) => ({ path: `${at}/${field}/${index}`, reason }));
  });
  return join(
    agents,
    { blocks: blocks.plans, tools, left_out: [...left_out, ...blocks.left_out] },
    options,
    errors,
  );
}

function readLegacy(file: LegacyFile, at: string, options: ImportOptions, errors: UploadErrors): ImportPlan {
  const { core_memory, tags, metadata_: metadata = null, tool_exec_environment_variables: variables } = file;
  const blocks = readBlocks(
    core_memory.map((block, index) => ({ ...block, id: `${at}#${index}` })),
    `${at}/core_memory`,
    errors,
  );
  const tools = (file.tools ?? []).map((tool, index) => toToolPlan(tool, `${at}/tools/${index}`));
  const agent: FileAgent = {
    path: at,
    fields: { ...file, tags: tags?.map(({ tag }) => tag), metadata, tools: [] },
    blocks: blocks.plans.map(({ key, path }) => ({ key, path })),
    file_tools: tools.map(({ name }) => name),
    messages: file.messages ?? [],
    secrets: variables == null ? null : Object.fromEntries(variables.map(({ key, value }) => [key, value])),
    isOwn: metadata?.[OWN_KEY] !== undefined,
  };
  return join([agent], { blocks: blocks.plans, tools, left_out: blocks.left_out }, options, errors);
}

/** Adds the agents to the parts that they share. */
function join(
  agents: readonly FileAgent[],
  parts: Omit<ImportPlan, 'agents'>,
  options: ImportOptions,
  errors: UploadErrors,
): ImportPlan {
  const read = agents.map((agent) => readAgent(agent, options, errors));
  return {
    ...parts,
    agents: read.flatMap(({ plan }) => plan ?? []),
    left_out: [...parts.left_out, ...read.flatMap(({ left_out }) => left_out)],
  };
}

function readAgent(
  agent: FileAgent,
  options: ImportOptions,
  errors: UploadErrors,
): { readonly plan: AgentPlan | null; readonly left_out: readonly LeftOut[] } {
  const { path, isOwn } = agent;
  const { kept, left_out } = splitAgentFields(agent.fields, path, isOwn);
  const fields = withSecrets(isOwn ? withOwnFields(kept) : kept, agent, options);
  const input = checked(agentInput, withOptions(fields, options), path, errors);
  const wanted = options.strip_messages ? [] : agent.messages;
  const messages = readMessages(wanted, `${path}/messages`, isOwn);
  checkMessages(messages.kept, errors);
  const plan = input && {
    ...{ path, input, blocks: agent.blocks, file_tools: [...new Set(agent.file_tools)] },
    messages: messages.kept,
  };
  return { plan, left_out: [...left_out, ...messages.left_out] };
}

/** Validates messages as appended messages. */
function checkMessages(kept: ReturnType<typeof readMessages>['kept'], errors: UploadErrors): void {
  if (kept.length === 0) return;
  const result = validateAt(appendInput, { messages: kept.map(({ message }) => message) }, '');
  if ('value' in result) return;
  const fields = result.errors.fields.map(({ path, message }): FieldError => {
    const [, , index = '', ...rest] = path.split('/');
    const place = rest.map((part) => `/${part === 'said_at' ? 'created_at' : part}`).join('');
    return { path: `${kept[Number(index)]?.path ?? ''}${place}`, message };
  });
  errors.add({ ...result.errors, fields });
}

function withSecrets(fields: Fields, { secrets }: FileAgent, options: ImportOptions): Fields {
  const values = Object.entries({ ...secrets, ...options.secrets });
  if (values.length === 0) return fields;
  // Files of Letta have null for a value that they leave out.
  return { ...fields, secrets: Object.fromEntries(values.map(([name, value]) => [name, value ?? ''])) };
}

/** Adds the caller's changes to the fields of an agent, whose tools are those of the file. */
function withOptions(fields: Fields, { name, append_copy_suffix, model, embedding }: ImportOptions): Fields {
  const own = name ?? fields['name'];
  const { llm_config, ...others } = fields;
  const window = isJsonObject(llm_config) ? llm_config['context_window'] : undefined;
  return {
    ...(model === null ? fields : { context_window_limit: window, ...others, model }),
    ...(embedding === null ? {} : { embedding }),
    name: append_copy_suffix && typeof own === 'string' ? `${own}_copy` : own,
    include_base_tools: false,
    include_base_tool_rules: false,
  };
}

function readBlocks(
  blocks: readonly Fields[],
  at: string,
  errors: UploadErrors,
): { readonly plans: readonly BlockPlan[]; readonly left_out: readonly LeftOut[] } {
  const left_out: LeftOut[] = [];
  const plans = blocks.flatMap((block, index): readonly BlockPlan[] => {
    const path = `${at}/${index}`;
    const split = splitBlockFields(block, path);
    left_out.push(...split.left_out);
    const input = checked(blockInput, split.kept, path, errors);
    return input === null ? [] : [{ path, key: String(block['id']), input }];
  });
  return { plans, left_out };
}

function toToolPlan({ name, tool_type }: FileTool, path: string): ToolPlan {
  const module = `no tool '${name}' exists here, and source code is not run: put a module of this name into TOOLS_DIR`;
  const reasons: readonly (readonly [string, string])[] = [
    ['letta_', `Letta's tool '${name}' does not exist here`],
    ['external_', `no tool '${name}' exists here, and servers of MCP are not called`],
  ];
  const found = reasons.find(([prefix]) => tool_type?.startsWith(prefix) === true);
  return { path, name, reason: found?.[1] ?? module };
}

function refuseRepeats(file: AgentFile, at: string, errors: UploadErrors): void {
  for (const kind of ['agents', 'blocks', 'tools'] as const) {
    const places = new Map<string, number>();
    for (const [index, { id }] of (file[kind] ?? []).entries()) {
      const first = places.get(id);
      if (first === undefined) places.set(id, index);
      else refuse(`${at}/${kind}/${index}/id`, `'${id}' is already the id of ${at}/${kind}/${first}`, errors);
    }
  }
}

function refuseDangling(
  ids: readonly string[],
  known: { has(id: string): boolean },
  at: string,
  kind: string,
  errors: UploadErrors,
): void {
  const seen = new Set<string>();
  for (const [index, id] of ids.entries()) {
    if (!known.has(id)) refuse(`${at}/${index}`, `the file has no ${kind} '${id}'`, errors);
    else if (seen.has(id)) refuse(`${at}/${index}`, `names the ${kind} '${id}' twice`, errors);
    seen.add(id);
  }
}

function refuse(path: string, message: string, errors: UploadErrors): void {
  errors.add({ code: 'validation_failed', fields: [{ path, message }], total: 1 });
}

/** Options without a change. */
export const NO_OPTIONS: ImportOptions = {
  ...{
    name: null,
    append_copy_suffix: false,
    strip_messages: false,
    model: null,
    secrets: null,
    embedding: null,
  },
};

/** Moves the fields of an error below a path. */
export function errorBelow(error: unknown, path: string): unknown {
  if (!(error instanceof NightshiftError) || path === '') return error;
  const fields = error.fields.map((field) => ({ ...field, path: `${path}${field.path}` }));
  return new NightshiftError(error.code, error.message, { fields, fields_total: error.fields_total });
}
