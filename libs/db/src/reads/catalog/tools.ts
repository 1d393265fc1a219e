import { NightshiftError, type JsonObject, type SideEffects, type ToolKind } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { containsText } from '../contains-text.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { toKeyset, type Page } from '../keyset.ts';

/** A tool as it is stored. */
export interface ToolRow {
  readonly id: string;
  readonly name: string;
  readonly kind: ToolKind;
  readonly tool_type: string;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly side_effects: SideEffects;
  readonly return_char_limit: number;
  readonly timeout_ms: number;
  readonly requires_approval: boolean;
  readonly source_type: string;
  readonly source_code: string | null;
  readonly tags: readonly string[];
  readonly metadata: Record<string, unknown>;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** A tool with the agent that has it. */
export interface AgentToolRow extends ToolRow {
  readonly agent_id: string;
}

/** What tools a list shows; null does not filter, an empty list lets none through. */
export interface ToolFilter {
  readonly names: readonly string[] | null;
  readonly ids: readonly string[] | null;
  readonly name_part: string | null;
  readonly tool_types: readonly string[] | null;
  readonly excluded_tool_types: readonly string[] | null;
}

const columns = sql`t.id, t.name, t.kind, t.tool_type, t.description, t.input_schema, t.side_effects, t.return_char_limit,
  t.timeout_ms, t.requires_approval, t.source_type, t.source_code, t.tags, t.metadata, t.created_at, t.updated_at`;

/** One tool; throws `not_found`. Index: primary key. */
export async function readTool(db: Database, projectId: string, toolId: string): Promise<ToolRow> {
  const { rows } = await sql<ToolRow>`
    select ${columns} from tool t where t.id = ${toolId} and t.project_id = ${projectId}
  `.execute(db);
  const [tool] = rows;
  if (tool === undefined) throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
  return tool;
}

/** The tools of these ids or names that exist, in no order. Index: primary key, unique (project, name). */
export async function findTools(
  db: Database,
  projectId: string,
  wanted: { readonly ids: readonly string[]; readonly names: readonly string[] },
): Promise<readonly ToolRow[]> {
  if (wanted.ids.length === 0 && wanted.names.length === 0) return [];
  const { rows } = await sql<ToolRow>`
    select ${columns} from tool t
    where t.project_id = ${projectId} and (t.id = any(${[...wanted.ids]}::uuid[]) or t.name = any(${[...wanted.names]}::text[]))
  `.execute(db);
  return rows;
}

/** A page of tools by age. Index: `tool_by_age`. */
export async function listTools(
  db: Database,
  projectId: string,
  page: Page,
  filter: ToolFilter,
): Promise<Listed<ToolRow>> {
  const keyset = await toKeyset(db, page, 'tool', 't');
  const { rows, is_cut } = await readCutPage<ToolRow>(
    db,
    sql`
    select ${columns} from tool t
    where t.project_id = ${projectId} and ${keyset.where} and ${sql.join([sql`true`, ...toConditions(filter)], sql` and `)}
    order by ${keyset.orderBy} limit ${page.limit}
  `,
    sql`octet_length(concat(p.source_code, p.description, p.input_schema, p.metadata))`,
  );
  return { rows: keyset.inOrder(rows), is_cut };
}

function toConditions(filter: ToolFilter): readonly RawBuilder<unknown>[] {
  return [
    ...(filter.names === null ? [] : [sql`t.name = any(${[...filter.names]}::text[])`]),
    ...(filter.ids === null ? [] : [sql`t.id = any(${[...filter.ids]}::uuid[])`]),
    ...(filter.name_part === null ? [] : [containsText('t.name', filter.name_part)]),
    ...(filter.tool_types === null ? [] : [sql`t.tool_type = any(${[...filter.tool_types]}::text[])`]),
    ...(filter.excluded_tool_types === null
      ? []
      : [sql`not t.tool_type = any(${[...filter.excluded_tool_types]}::text[])`]),
  ];
}

/** The tools of agents, per agent in attach order. Index: primary keys of `agent_tool` and `tool`. */
export async function readToolsOfAgents(
  db: Database,
  agentIds: readonly string[],
): Promise<readonly AgentToolRow[]> {
  if (agentIds.length === 0) return [];
  const { rows } = await sql<AgentToolRow>`
    select k.agent_id, ${columns} from agent_tool k join tool t on t.id = k.tool_id
    where k.agent_id = any(${[...agentIds]}::uuid[]) order by k.agent_id, k.position, t.id
  `.execute(db);
  return rows;
}

/**
 * The names of the module tools that agents have and `present` does not hold, by name. Index: unique (project, name),
 * `agent_tool_by_tool`.
 */
export async function readMissingModuleTools(
  db: Database,
  projectId: string,
  present: readonly string[],
): Promise<readonly string[]> {
  const { rows } = await sql<{ readonly name: string }>`
    select t.name from tool t
    where t.project_id = ${projectId} and t.kind = 'module' and not t.name = any(${[...present]}::text[])
      and exists (select from agent_tool k where k.tool_id = t.id)
    order by t.name
  `.execute(db);
  return rows.map(({ name }) => name);
}

/** A page of one agent's tools by age. */
export async function listAgentTools(db: Database, agentId: string, page: Page): Promise<Listed<ToolRow>> {
  const keyset = await toKeyset(db, page, 'tool', 't');
  const { rows, is_cut } = await readCutPage<ToolRow>(
    db,
    sql`
    select ${columns} from agent_tool k join tool t on t.id = k.tool_id
    where k.agent_id = ${agentId} and ${keyset.where} order by ${keyset.orderBy} limit ${page.limit}
  `,
    sql`octet_length(concat(p.source_code, p.description, p.input_schema, p.metadata))`,
  );
  return { rows: keyset.inOrder(rows), is_cut };
}
