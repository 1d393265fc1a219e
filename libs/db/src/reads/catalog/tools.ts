import {
  NightshiftError,
  type JsonObject,
  type SideEffects,
  type ToolKind,
  type ToolSource,
} from '@nightshift/agent-core';
import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../../connect.ts';
import { anyText, anyUuid } from '../../fragments.ts';
import { containsText } from '../contains-text.ts';
import { readCutPage, type Listed } from '../cut-page.ts';
import { toKeyset, type Page } from '../keyset.ts';

/** A tool as stored. */
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
  readonly source: ToolSource | null;
  /** Limits over all workers; null: none. */
  readonly concurrency: number | null;
  readonly rate_per_minute: number | null;
  readonly tags: readonly string[];
  readonly metadata: Record<string, unknown>;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** A tool with the agent it is attached to. */
export interface AgentToolRow extends ToolRow {
  readonly agent_id: string;
}

/** Filters of a list of tools; null does not filter, an empty list matches none. */
export interface ToolFilter {
  readonly names: readonly string[] | null;
  readonly ids: readonly string[] | null;
  readonly name_part: string | null;
  readonly tool_types: readonly string[] | null;
  readonly excluded_tool_types: readonly string[] | null;
}

const columns = [
  ...([
    't.id',
    't.name',
    't.kind',
    't.tool_type',
    't.description',
    't.input_schema',
    't.side_effects',
  ] as const),
  ...([
    't.return_char_limit',
    't.timeout_ms',
    't.requires_approval',
    't.source_type',
    't.source_code',
    't.source',
  ] as const),
  ...(['t.concurrency', 't.rate_per_minute'] as const),
  ...(['t.tags', 't.metadata', 't.created_at', 't.updated_at'] as const),
] as const;

/** The size of the tool `p`. */
const BYTES = sql`octet_length(concat(p.source_code, p.description, p.input_schema, p.metadata))`;

/** Reads one tool. Throws: `not_found`. Index: primary key. */
export async function readTool(db: Database, projectId: string, toolId: string): Promise<ToolRow> {
  const tool = await db
    .selectFrom('tool as t')
    .select(columns)
    .where('t.id', '=', toolId)
    .where('t.project_id', '=', projectId)
    .executeTakeFirst();
  if (tool === undefined) throw new NightshiftError('not_found', `There is no tool tool-${toolId}.`);
  return tool;
}

/** Reads the existing tools with these ids or names, unordered. Index: primary key, unique (project, name). */
export async function findTools(
  db: Database,
  projectId: string,
  wanted: { readonly ids: readonly string[]; readonly names: readonly string[] },
): Promise<readonly ToolRow[]> {
  if (wanted.ids.length === 0 && wanted.names.length === 0) return [];
  return db
    .selectFrom('tool as t')
    .select(columns)
    .where('t.project_id', '=', projectId)
    .where((eb) => eb.or([eb('t.id', '=', anyUuid(wanted.ids)), eb('t.name', '=', anyText(wanted.names))]))
    .execute();
}

/** Returns the names that stored tools have. Index: the unique (project, name). */
export async function readKnownTools(
  db: Database,
  projectId: string,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set();
  const rows = await db
    .selectFrom('tool')
    .select('name')
    .where('project_id', '=', projectId)
    .where('name', '=', anyText(names))
    .execute();
  return new Set(rows.map(({ name }) => name));
}

/** Reads a page of tools by age. Index: `tool_by_age`. */
export async function listTools(
  db: Database,
  projectId: string,
  page: Page,
  filter: ToolFilter,
): Promise<Listed<ToolRow>> {
  const keyset = await toKeyset(db, page, 'tool', 't', sql`t.project_id = ${projectId}`);
  const tools = db
    .selectFrom('tool as t')
    .select(columns)
    .where('t.project_id', '=', projectId)
    .where((eb) => eb.and([keyset.where, ...toConditions(filter)]))
    .orderBy(keyset.orderBy)
    .limit(page.limit);
  const { rows, is_cut } = await readCutPage(db, tools, BYTES);
  return { rows: keyset.inOrder(rows), is_cut };
}

function toConditions(filter: ToolFilter): readonly RawBuilder<SqlBool>[] {
  return [
    ...(filter.names === null ? [] : [sql<SqlBool>`t.name = ${anyText(filter.names)}`]),
    ...(filter.ids === null ? [] : [sql<SqlBool>`t.id = ${anyUuid(filter.ids)}`]),
    ...(filter.name_part === null ? [] : [containsText('t.name', filter.name_part)]),
    ...(filter.tool_types === null ? [] : [sql<SqlBool>`t.tool_type = ${anyText(filter.tool_types)}`]),
    ...(filter.excluded_tool_types === null
      ? []
      : [sql<SqlBool>`not t.tool_type = ${anyText(filter.excluded_tool_types)}`]),
  ];
}

/** Reads the tools of agents, per agent in attach order. Index: primary keys of `agent_tool` and `tool`. */
export async function readToolsOfAgents(
  db: Database,
  agentIds: readonly string[],
): Promise<readonly AgentToolRow[]> {
  if (agentIds.length === 0) return [];
  return db
    .selectFrom('agent_tool as k')
    .innerJoin('tool as t', 't.id', 'k.tool_id')
    .select(['k.agent_id', ...columns])
    .where('k.agent_id', '=', anyUuid(agentIds))
    .orderBy('k.agent_id')
    .orderBy('k.position')
    .orderBy('t.id')
    .execute();
}

/**
 * Reads, by name, the attached module tools that are not in `present`. Index: unique (project, name), `agent_tool_by_tool`.
 */
export async function readMissingModuleTools(
  db: Database,
  projectId: string,
  present: readonly string[],
): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('tool as t')
    .select('t.name')
    .where('t.project_id', '=', projectId)
    .where('t.kind', '=', 'module')
    .where((eb) => eb.not(eb('t.name', '=', anyText(present))))
    .where((eb) => eb.exists(eb.selectFrom('agent_tool as k').whereRef('k.tool_id', '=', 't.id')))
    .orderBy('t.name')
    .execute();
  return rows.map(({ name }) => name);
}

/** Reads a page of an agent's tools by age. */
export async function listAgentTools(db: Database, agentId: string, page: Page): Promise<Listed<ToolRow>> {
  const keyset = await toKeyset(
    db,
    page,
    'tool',
    't',
    sql`t.project_id = (select project_id from agent where id = ${agentId})`,
  );
  const tools = db
    .selectFrom('agent_tool as k')
    .innerJoin('tool as t', 't.id', 'k.tool_id')
    .select(columns)
    .where('k.agent_id', '=', agentId)
    .where(keyset.where)
    .orderBy(keyset.orderBy)
    .limit(page.limit);
  const { rows, is_cut } = await readCutPage(db, tools, BYTES);
  return { rows: keyset.inOrder(rows), is_cut };
}
