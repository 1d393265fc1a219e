import { isJsonObject } from '@nightshift/agent-core';
import { isEmpty, type LeftOut } from './left-out.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Key of the fields in `metadata` that Letta does not know. */
export const OWN_KEY = 'nightshift';

/** Fields of an agent that come over unchanged. */
const KEPT: ReadonlySet<string> = new Set([
  ...['name', 'description', 'system', 'agent_type', 'tags', 'metadata', 'timezone', 'tool_rules', 'model'],
  ...['message_buffer_autoclear', 'response_format', 'context_window_limit', 'model_settings', 'llm_config'],
  ...['max_tokens', 'parallel_tool_calls', 'compaction_settings', 'hidden', 'max_files_open'],
  ...['per_file_view_window_char_limit', 'enable_sleeptime', 'server_tools'],
]);
/** Stored for clients that read them back; without effect. */
const ECHOED: ReadonlySet<string> = new Set(['embedding', 'embedding_config']);

/** Fields that name or repeat other parts of the file. */
const READ_ELSEWHERE: ReadonlySet<string> = new Set([
  ...['id', 'block_ids', 'tool_ids', 'messages', 'in_context_message_ids', 'in_context_message_indices'],
  ...['tool_exec_environment_variables', 'secrets', 'created_at', 'updated_at', 'version'],
  ...['core_memory', 'metadata_', 'include_base_tool_rules', 'include_multi_agent_tools', 'message_ids'],
  ...['include_default_source'],
]);

const NO_FILES = 'agents have no files here';
const NO_GROUPS = 'groups of agents do not exist here';
const NO_EMBEDDING = 'nothing is embedded here';
const NO_TEMPLATES = 'templates do not exist here';
const NO_PROJECTS = 'projects do not exist here';
const THINKING = 'set model_settings.thinking instead';

/** Why a field does not come over. */
const REASONS: Readonly<Record<string, string>> = {
  base_template_id: NO_TEMPLATES,
  embedding: NO_EMBEDDING,
  embedding_chunk_size: NO_EMBEDDING,
  embedding_config: NO_EMBEDDING,
  enable_reasoner: THINKING,
  files_agents: NO_FILES,
  folder_ids: NO_FILES,
  from_template: NO_TEMPLATES,
  group_ids: NO_GROUPS,
  identity_ids: 'identities do not exist here',
  include_base_tools: 'the tools of the file are attached, and no others',
  initial_message_sequence: 'messages stand in `messages`',
  max_reasoning_tokens: THINKING,
  memory_blocks: 'blocks stand in `blocks`',
  memory_variables: NO_TEMPLATES,
  multi_agent_group: NO_GROUPS,
  project: NO_PROJECTS,
  project_id: NO_PROJECTS,
  reasoning: THINKING,
  source_ids: NO_FILES,
  template: NO_TEMPLATES,
  template_id: NO_TEMPLATES,
  tools: 'tools stand in `tool_ids`',
};
const UNKNOWN = 'this field is not known here';

/** Fields of `llm_config` that are read, or that only describe the provider. */
const LLM_KEPT: ReadonlySet<string> = new Set([
  ...['model', 'handle', 'provider_name', 'model_endpoint_type', 'context_window', 'max_tokens', 'effort'],
  ...['parallel_tool_calls', 'response_format'],
]);
const LLM_DESCRIPTIONS: ReadonlySet<string> = new Set([
  ...['model_endpoint', 'provider_category', 'model_wrapper', 'display_name', 'tier', 'compatibility_type'],
]);
const LLM_REASONS: Readonly<Record<string, string>> = {
  enable_reasoner: THINKING,
  max_reasoning_tokens: THINKING,
  temperature: 'the provider refuses it',
};

/** The settings of compaction that Letta and this service share. */
const COMPACTION_KEPT: ReadonlySet<string> = new Set(['mode', 'sliding_window_percentage']);

interface SplitFields {
  readonly kept: Readonly<Record<string, unknown>>;
  readonly left_out: readonly LeftOut[];
}

/**
 * Splits the fields of an agent into those that come over and those that do not. `isOwn`: the file is an export of this
 * service, so it holds nothing else.
 */
export function splitAgentFields(agent: Fields, path: string, isOwn: boolean): SplitFields {
  const kept: Record<string, unknown> = {};
  const left_out: LeftOut[] = [];
  const nested = new Map<string, (value: Fields, path: string) => SplitFields>(
    isOwn ? [] : [...NESTED.entries()],
  );
  for (const [field, value] of Object.entries(agent)) {
    const at = `${path}/${field}`;
    if (KEPT.has(field) || (isOwn && ECHOED.has(field))) {
      const split = isJsonObject(value) ? nested.get(field)?.(value, at) : undefined;
      kept[field] = split?.kept ?? value;
      left_out.push(...(split?.left_out ?? []));
    } else if (!READ_ELSEWHERE.has(field) && !isEmpty(value)) {
      left_out.push({ path: at, reason: REASONS[field] ?? UNKNOWN });
    }
  }
  return { kept, left_out };
}

/** Fields whose own fields are split too. */
const NESTED: ReadonlyMap<string, (value: Fields, path: string) => SplitFields> = new Map([
  ['llm_config', (value, path) => split(value, path, LLM_KEPT, LLM_DESCRIPTIONS, LLM_REASONS)],
  ['compaction_settings', splitCompaction],
]);

/** Letta's mode `all` is unknown here; the agent gets the default. */
function splitCompaction(value: Fields, path: string): SplitFields {
  if (value['mode'] !== 'all') return split(value, path, COMPACTION_KEPT, new Set(), {});
  return {
    kept: {},
    left_out: [{ path, reason: 'the mode `all` does not exist here; the default applies' }],
  };
}

function split(
  value: Fields,
  path: string,
  known: ReadonlySet<string>,
  silent: ReadonlySet<string>,
  reasons: Readonly<Record<string, string>>,
): SplitFields {
  const entries = Object.entries(value);
  return {
    kept: Object.fromEntries(entries.filter(([field]) => known.has(field))),
    left_out: entries
      .filter(([field, inner]) => !known.has(field) && !silent.has(field) && !isEmpty(inner))
      .map(([field]) => ({
        path: `${path}/${field}`,
        reason: reasons[field] ?? 'this setting has no effect here',
      })),
  };
}

/** Fields of a block that come over. */
const BLOCK_KEPT: ReadonlySet<string> = new Set([
  ...['label', 'value', 'limit', 'description', 'metadata', 'read_only', 'is_template', 'hidden', 'tags'],
]);
const BLOCK_SILENT: ReadonlySet<string> = new Set(['id', 'created_at', 'updated_at', 'metadata_']);
const BLOCK_REASONS: Readonly<Record<string, string>> = {
  ...{ base_template_id: NO_TEMPLATES, template_id: NO_TEMPLATES, template_name: NO_TEMPLATES },
  ...{ project_id: NO_PROJECTS, entity_id: NO_PROJECTS, deployment_id: NO_PROJECTS },
  preserve_on_migration: NO_TEMPLATES,
};

/** Splits the fields of a block. */
export function splitBlockFields(block: Fields, path: string): SplitFields {
  const { kept, left_out } = split(block, path, BLOCK_KEPT, BLOCK_SILENT, BLOCK_REASONS);
  const metadata = block['metadata'] ?? block['metadata_'];
  return { kept: withOwnFields({ ...kept, metadata }), left_out };
}

/** Puts the fields that an export keeps in `metadata` back into their places. */
export function withOwnFields(fields: Fields): Fields {
  const { metadata } = fields;
  if (!isJsonObject(metadata)) return fields;
  const { [OWN_KEY]: own, ...rest } = metadata;
  if (!isJsonObject(own)) return fields;
  const { metadata_is_null, ...others } = own;
  return { ...fields, metadata: metadata_is_null === true ? null : rest, ...others };
}

/** Keeps fields in `metadata` that Letta does not know. */
export function withOwnMetadata(metadata: Fields | null, own: Fields): Fields {
  return { ...metadata, [OWN_KEY]: metadata === null ? { ...own, metadata_is_null: true } : own };
}
