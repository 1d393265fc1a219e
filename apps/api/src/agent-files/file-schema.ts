import { listOf, recordOf } from '@nightshift/agent-core';
import { z } from 'zod';
import { MESSAGES_MAX } from '../schemas/append.ts';

/** Most agents of a file or an upload. */
export const FILE_AGENTS_MAX = 10_000;
/** Most entities of a kind, beside agents. */
const ENTITIES_MAX = 100_000;
const LINKS_MAX = 500;

const record = z.record(z.string(), z.unknown());
const fileId = z.string().min(1).max(200);

/** A message in either format. Other fields are not read. */
const fileMessage = z.looseObject({
  role: z.string(),
  content: z.union([z.string(), listOf(z.looseObject({ type: z.string() }), 10_000)]).nullish(),
  tool_calls: listOf(
    z.looseObject({ function: z.looseObject({ name: z.string() }).nullish() }),
    1_000,
  ).nullish(),
  name: z.string().nullish(),
  otid: z.string().nullish(),
  created_at: z.string().nullish(),
});
export type FileMessage = z.output<typeof fileMessage>;
const messages = listOf(fileMessage, MESSAGES_MAX).nullish();

const fileTool = z.looseObject({
  name: z.string().min(1).max(64),
  tool_type: z.string().nullish(),
});
export type FileTool = z.output<typeof fileTool>;

const entities = listOf(z.looseObject({ id: fileId }), ENTITIES_MAX).nullish();

/** Letta's present format: agents, and the parts that they share, joined by ids of the file. */
export const agentFile = z.looseObject({
  agents: listOf(
    z.looseObject({
      id: fileId,
      block_ids: listOf(fileId, LINKS_MAX).nullish(),
      tool_ids: listOf(fileId, LINKS_MAX).nullish(),
      messages,
      metadata: record.nullish(),
      tool_exec_environment_variables: recordOf(z.unknown(), LINKS_MAX).nullish(),
      secrets: recordOf(z.unknown(), LINKS_MAX).nullish(),
    }),
    FILE_AGENTS_MAX,
  ).min(1, 'must hold an agent'),
  blocks: listOf(z.looseObject({ id: fileId }), ENTITIES_MAX).nullish(),
  tools: listOf(fileTool.extend({ id: fileId }), ENTITIES_MAX).nullish(),
  groups: entities,
  files: entities,
  sources: entities,
  mcp_servers: entities,
  metadata: record.nullish(),
});
export type AgentFile = z.output<typeof agentFile>;

/** Letta's older format: an agent with its parts. */
export const legacyFile = z.looseObject({
  core_memory: listOf(z.looseObject({ label: z.string() }), LINKS_MAX),
  messages,
  tools: listOf(fileTool, LINKS_MAX).nullish(),
  tags: listOf(z.looseObject({ tag: z.string() }), 100).nullish(),
  metadata_: record.nullish(),
  tool_exec_environment_variables: listOf(z.looseObject({ key: z.string() }), LINKS_MAX).nullish(),
});
export type LegacyFile = z.output<typeof legacyFile>;
