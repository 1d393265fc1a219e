import {
  NightshiftError,
  type CompactionPolicy,
  type ModelSettings,
  type ServerTool,
} from '@nightshift/agent-core';
import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../../connect.ts';
import { containsText } from '../contains-text.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { toKeyset, type Page } from '../keyset.ts';

/** An agent as stored. */
export interface AgentRow {
  readonly id: string;
  readonly conversation_id: string;
  readonly name: string;
  readonly description: string | null;
  readonly agent_type: string;
  readonly system: string;
  readonly model: string;
  readonly model_settings: ModelSettings;
  readonly tool_rules: readonly Record<string, unknown>[];
  readonly metadata: Record<string, unknown> | null;
  readonly tags: readonly string[];
  readonly timezone: string;
  readonly message_buffer_autoclear: boolean;
  readonly context_window_limit: number;
  readonly compaction: CompactionPolicy;
  readonly server_tools: readonly ServerTool[] | null;
  readonly hidden: boolean;
  readonly echoed: Record<string, unknown>;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** Maximum messages named by an agent's `message_ids`: the newest. */
export const MESSAGE_IDS_MAX = 1_000;
/** Bytes of a message id in an answer: prefix, uuid, quotes and comma. */
const MESSAGE_ID_BYTES = 47;

/** Filters of a list of agents; null and empty lists do not filter. */
export interface AgentFilter {
  readonly name: string | null;
  /** Part of the name, case-insensitive. */
  readonly name_part: string | null;
  readonly tags: readonly string[];
  /** Whether an agent must have all of `tags`, or any. */
  readonly all_tags: boolean;
  readonly block_id: string | null;
}

/** The related rows in an answer about an agent, which count towards its page size. */
export interface AgentRelations {
  readonly blocks: boolean;
  readonly tools: boolean;
}

const columns = [
  ...([
    'a.id',
    'a.conversation_id',
    'a.name',
    'a.description',
    'a.agent_type',
    'a.system',
    'a.model',
  ] as const),
  ...(['a.model_settings', 'a.tool_rules', 'a.metadata', 'a.tags', 'a.timezone'] as const),
  ...([
    'a.message_buffer_autoclear',
    'a.context_window_limit',
    'a.compaction',
    'a.server_tools',
    'a.hidden',
    'a.echoed',
  ] as const),
  ...(['a.created_at', 'a.updated_at'] as const),
] as const;

/** Reads an agent that is not deleted. Throws: `not_found`. Index: primary key. */
export async function readAgent(db: Database, projectId: string, agentId: string): Promise<AgentRow> {
  const agent = await db
    .selectFrom('agent as a')
    .select(columns)
    .where('a.id', '=', agentId)
    .where('a.project_id', '=', projectId)
    .where('a.deleted_at', 'is', null)
    .executeTakeFirst();
  if (agent === undefined) throw new NightshiftError('not_found', `There is no agent agent-${agentId}.`);
  return agent;
}

/**
 * Reads a page of agents by age (or by last change), without deleted agents. Hidden agents appear only in lists of a
 * block's agents.
 * Index: `agent_by_age`, or for a selective filter `agent_by_name`, `agent_by_tag` or `agent_block_by_block`.
 */
export async function listAgents(
  db: Database,
  projectId: string,
  page: Page,
  filter: AgentFilter,
  orderBy: 'created_at' | 'updated_at' = 'created_at',
  relations: AgentRelations = { blocks: false, tools: false },
): Promise<Listed<AgentRow>> {
  const keyset = await toKeyset(db, page, 'agent', 'a', sql`a.project_id = ${projectId}`, orderBy);
  const conditions = [
    keyset.where,
    ...(filter.name === null ? [] : [sql<SqlBool>`a.name = ${filter.name}`]),
    ...agentConditions(filter),
    filter.block_id === null
      ? sql<SqlBool>`not a.hidden`
      : sql<SqlBool>`a.id in (select k.agent_id from agent_block k where k.block_id = ${filter.block_id})`,
  ];
  const agents = db
    .selectFrom('agent as a')
    .select(columns)
    .where('a.project_id', '=', projectId)
    .where('a.deleted_at', 'is', null)
    .where((eb) => eb.and(conditions))
    .orderBy(keyset.orderBy)
    .limit(page.limit);
  const { rows, is_cut } = await readCutPage(db, agents, sizeOf(relations));
  return { rows: keyset.inOrder(rows), is_cut };
}

/** The conditions on name and tags, for the agent `a`. */
export function agentConditions({
  name_part,
  tags,
  all_tags,
}: Pick<AgentFilter, 'name_part' | 'tags' | 'all_tags'>): readonly RawBuilder<SqlBool>[] {
  return [
    ...(name_part === null ? [] : [containsText('a.name', name_part)]),
    ...(tags.length === 0
      ? []
      : [all_tags ? sql<SqlBool>`a.tags @> ${tags}::text[]` : sql<SqlBool>`a.tags && ${tags}::text[]`]),
  ];
}

/** The size of the agent `p` with its message ids; its blocks are answered twice. */
function sizeOf({ blocks, tools }: AgentRelations): RawBuilder<unknown> {
  const ofBlocks = sql`
    + (select 2 * coalesce(sum(octet_length(v.value) + octet_length(concat(v.description, b.metadata))), 0)
         from agent_block k join block b on b.id = k.block_id
         join block_revision v on v.block_id = b.id and v.revision = b.head_revision where k.agent_id = p.id)`;
  const ofTools = sql`
    + (select coalesce(sum(octet_length(concat(t.source_code, t.description, t.input_schema, t.metadata))), 0)
         from agent_tool k join tool t on t.id = k.tool_id where k.agent_id = p.id)`;
  const ofMessageIds = sql`
    + (select ${MESSAGE_ID_BYTES} * least(${MESSAGE_IDS_MAX}, l.seq - greatest(c.context_from_seq, 1) + 1)
         from conversation c,
              lateral (select coalesce(max(m.seq), 0) as seq from message m where m.conversation_id = c.id) l
        where c.id = p.conversation_id)`;
  return sql`octet_length(p.system) + octet_length(concat(p.description, p.metadata, p.tool_rules, p.echoed))
    ${ofMessageIds} ${blocks ? ofBlocks : sql``} ${tools ? ofTools : sql``}`;
}

/** Reads the tags of all agents, in order. */
export async function listTags(db: Database, projectId: string): Promise<readonly string[]> {
  const { rows } = await sql<{ tag: string }>`
    select distinct tag from agent, unnest(tags) as tag where project_id = ${projectId} and deleted_at is null order by tag
  `.execute(db);
  return rows.map((row) => row.tag);
}
