import { listOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { shownId } from './ids.ts';
import { storedName } from './text.ts';
import { TOOL } from './examples/agents.ts';

/** Letta's names for the origins of tools. */
export const TOOL_TYPES = [
  'custom',
  'letta_core',
  'letta_memory_core',
  'letta_multi_agent_core',
  'letta_sleeptime_core',
  'letta_voice_sleeptime_core',
  'letta_builtin',
  'letta_files_core',
  'external_langchain',
  'external_composio',
  'external_mcp',
] as const;

const record = z.record(z.string(), z.unknown());
const returnCharLimit = z.int().min(1).max(1_000_000);
const tags = listOf(storedName(255), 100);
const npmRequirements = listOf(
  z.object({ name: z.string(), version: z.string().nullish() }).meta({ id: 'NpmRequirement' }),
  500,
);

const hostName = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9.-]{0,252})(?::[0-9]{1,5})?$/,
    'must be a host in lower case, without scheme or path',
  );
const secretName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'must be a name of letters, digits and _');

const httpRequest = z
  .strictObject({
    method: z.string(),
    url: z.string().max(8_192).describe('Templates such as {{place}} may stand in its path and query.'),
    headers: z
      .record(z.string(), z.string().max(8_192))
      .optional()
      .describe('Values may hold {{secrets.NAME}}.'),
    query: z.record(z.string(), z.string().max(8_192)).optional(),
    body: z.unknown().optional().describe('JSON. Templates may stand in its strings.'),
    result: z
      .string()
      .max(1_024)
      .optional()
      .describe('JSON Pointer of the result. Default: the whole answer.'),
  })
  .describe("The request of a tool with source_type 'http'. Beyond Letta.")
  .meta({ id: 'HttpTool' });

const limits = z
  .strictObject({
    concurrency: z.int().min(1).max(10_000).nullish().describe('Calls under way at a time.'),
    rate_per_minute: z.int().min(1).max(1_000_000).nullish().describe('Calls that start in a minute.'),
  })
  .describe(
    'Limits of the tool over all workers, for calls of open batches too. Replaces both; without a number there is no limit. Beyond Letta.',
  )
  .meta({ id: 'ToolLimitsUpdate', examples: [{ concurrency: 5, rate_per_minute: 300 }] });
export type LimitsInput = z.output<typeof limits>;

/** Letta's fields of a tool and ours, of which none is required. */
const toolFields = z.strictObject({
  source_code: z.string().nullish().describe('Required, except for an HTTP tool.'),
  source_type: z
    .string()
    .nullish()
    .describe(
      '`python` runs in a jail, and its annotations and docstring serve as schema; `javascript` and `typescript` run in a sandbox and need json_schema; `http` is a request. Default: `python`.',
    ),
  json_schema: record.nullish(),
  args_json_schema: record.nullish(),
  description: z.string().nullish(),
  tags: tags.nullish(),
  return_char_limit: returnCharLimit.nullish(),
  pip_requirements: listOf(record, 500).nullish(),
  npm_requirements: npmRequirements.nullish(),
  default_requires_approval: z
    .boolean()
    .nullish()
    .describe("True: every call of it waits in requires_action for the caller's approval."),
  enable_parallel_execution: z.boolean().nullish(),
  side_effects: z
    .enum(['none', 'idempotent', 'once'])
    .nullish()
    .describe('Whether an interrupted call may run again. Default: once, which never does. Beyond Letta.'),
  timeout_ms: z
    .int()
    .min(1)
    .max(600_000)
    .nullish()
    .describe('Timeout of a call. Unit: milliseconds. Default: 30,000. Beyond Letta.'),
  network: listOf(hostName, 50)
    .nullish()
    .describe('Hosts that the code may fetch from, such as api.example.com. Default: none. Beyond Letta.'),
  secrets: listOf(secretName, 50)
    .nullish()
    .describe('Names of the secrets that the code may read as process.env or os.environ. Beyond Letta.'),
  http: httpRequest.nullish(),
  limits: limits.nullish(),
});

/** An uploaded tool. Unknown fields are refused, as in Letta. */
export const toolInput = toolFields
  .superRefine(({ source_code, source_type }, context) => {
    if (source_code != null || source_type === 'http') return;
    context.addIssue({ code: 'custom', path: ['source_code'], message: 'is required' });
  })
  .meta({
    id: 'ToolCreate',
    examples: [
      {
        source_code: 'def rethink_memory(new_memory: str, target_block_label: str):\n    pass',
        return_char_limit: 10_000,
      },
    ],
  });
export type ToolInput = z.output<typeof toolInput>;

/** A change of a tool; `null` and absent fields change nothing. */
export const toolPatch = toolFields
  .extend({ metadata_: record.nullish() })
  .meta({ id: 'ToolUpdate', examples: [{ return_char_limit: 10_000 }] });
export type ToolPatch = z.output<typeof toolPatch>;

/** A tool on the wire. */
export const toolResponse = z
  .object({
    id: shownId('tool'),
    name: z.string(),
    tool_type: z.enum(TOOL_TYPES),
    description: z.string(),
    source_type: z.string(),
    source_code: z.string().nullable(),
    json_schema: record,
    args_json_schema: z.null(),
    tags: z.array(z.string()),
    return_char_limit: z.int(),
    pip_requirements: z.null(),
    npm_requirements: z.null(),
    default_requires_approval: z.boolean(),
    enable_parallel_execution: z.boolean(),
    metadata_: record,
    kind: z
      .string()
      .describe(
        'Runner: memory and finish (built in), module (of the operator), sandbox (uploaded code), python (uploaded Python), http or mcp. Beyond Letta.',
      ),
    timeout_ms: z.int().describe('Timeout of a call. Unit: milliseconds. Beyond Letta.'),
    network: z.array(z.string()).describe('Hosts that its code may fetch from. Beyond Letta.'),
    secrets: z.array(z.string()).describe('Names of the secrets that it is handed. Beyond Letta.'),
    http: record.nullable().describe('The request of an HTTP tool. Beyond Letta.'),
    limits: z
      .object({
        concurrency: z.int().nullable().describe('Calls under way at a time; null: no limit.'),
        rate_per_minute: z.int().nullable().describe('Calls that start in a minute; null: no limit.'),
      })
      .describe('Limits over all workers. Beyond Letta.')
      .meta({ id: 'ToolLimits' }),
    mcp: z
      .object({ server_id: shownId('mcp_server'), tool_name: z.string(), definition_sha256: z.string() })
      .nullable()
      .describe('The tool of an MCP server, as it was approved. Beyond Letta.'),
    side_effects: z
      .string()
      .describe('none, idempotent or once: whether an interrupted call may run again. Beyond Letta.'),
    created_by_id: shownId('user'),
    last_updated_by_id: shownId('user'),
    project_id: z.null(),
  })
  .meta({ id: 'Tool', examples: [TOOL] });
export type ToolResponse = z.output<typeof toolResponse>;
