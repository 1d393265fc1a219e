import { listOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { storedName } from './text.ts';

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

/** An uploaded tool. Unknown fields are refused, as in Letta. */
export const toolInput = z
  .strictObject({
    source_code: z.string(),
    source_type: z.string().nullish(),
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
  })
  .meta({ id: 'ToolCreate' });
export type ToolInput = z.output<typeof toolInput>;

/** A change of a tool; `null` and absent fields change nothing. */
export const toolPatch = toolInput
  .partial()
  .extend({ source_code: toolInput.shape.source_code.nullish(), metadata_: record.nullish() })
  .meta({ id: 'ToolUpdate' });
export type ToolPatch = z.output<typeof toolPatch>;

/** A tool on the wire. */
export const toolResponse = z
  .object({
    id: z.string(),
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
    kind: z.string().describe('Executor: memory (built in) or a module of the operator. Beyond Letta.'),
    side_effects: z
      .string()
      .describe('none, idempotent or once: whether an interrupted call may run again. Beyond Letta.'),
    created_by_id: z.string(),
    last_updated_by_id: z.string(),
    project_id: z.null(),
  })
  .meta({ id: 'Tool' });
export type ToolResponse = z.output<typeof toolResponse>;
