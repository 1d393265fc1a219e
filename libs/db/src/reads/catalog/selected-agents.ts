import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';
import { agentConditions } from './agents.ts';

/** Selects the agents of a fleet. */
export interface SelectedAgents {
  /** Null: all agents that match the other conditions and are not hidden. */
  readonly ids: readonly string[] | null;
  readonly tags: readonly string[];
  readonly all_tags: boolean;
  /** Part of the name, case-insensitive. */
  readonly name_part: string | null;
  readonly limit: number | null;
  /** Keeps deleted agents among `ids`, which the accept then skips. Default: false. */
  readonly with_deleted?: boolean;
}

/**
 * Selects the ids of agents, by age, each with its `ordinal` from 0.
 * Index: `agent_by_age`, `agent_by_tag`, or the primary key.
 */
export function selectAgents(projectId: string, selection: SelectedAgents): RawBuilder<unknown> {
  const { ids, limit } = selection;
  const conditions = [
    sql`a.project_id = ${projectId}::uuid`,
    ...(selection.with_deleted === true && ids !== null ? [] : [sql`a.deleted_at is null`]),
    ids === null ? sql`not a.hidden` : sql`a.id = any((select ${uuidArray(ids)}::uuid[])::uuid[])`,
    ...agentConditions(selection),
  ];
  return sql`
    select id, (row_number() over (order by created_at, id) - 1)::int as ordinal
      from (select a.id, a.created_at from agent a where ${sql.join(conditions, sql` and `)}
             order by a.created_at, a.id limit ${limit}::bigint) chosen`;
}

/** Reads the agents that a fleet would have now, in order. */
export async function readSelectedAgents(
  db: Database,
  projectId: string,
  selection: SelectedAgents,
): Promise<readonly string[]> {
  const { rows } = await sql<{ ids: readonly string[] }>`
    select coalesce(array_agg(s.id order by s.ordinal), '{}') as ids from (${selectAgents(projectId, selection)}) s
  `.execute(db);
  return rows[0]?.ids ?? [];
}

/** Reads which of the agents exist and are not deleted. Index: primary key. */
export async function readKnownAgents(
  db: Database,
  projectId: string,
  agentIds: readonly string[],
): Promise<ReadonlySet<string>> {
  return new Set(
    await readSelectedAgents(db, projectId, {
      ...{ ids: agentIds, tags: [], all_tags: false, name_part: null, limit: null },
    }),
  );
}
