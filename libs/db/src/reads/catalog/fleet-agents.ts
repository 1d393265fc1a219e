import type { RunState, StopReason } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/** A block as a fleet's input shows it. */
export interface FleetBlock {
  readonly label: string;
  readonly description: string | null;
  readonly value: string;
  readonly read_only: boolean;
}

/** The latest ended run of an agent. */
export interface EndedRun {
  readonly id: string;
  readonly state: RunState;
  readonly stop_reason: StopReason | null;
  /** As JSON shows it: in the time zone of the connection. */
  readonly ended_at: string;
  readonly result: unknown;
}

/** The facts about an agent that its input may show. */
export interface FleetAgent {
  readonly id: string;
  readonly name: string;
  readonly description: string | null;
  readonly tags: readonly string[];
  readonly metadata: Readonly<Record<string, unknown>> | null;
  /** Empty unless asked for. */
  readonly system: string;
  readonly model: string;
  readonly context_window_limit: number;
  readonly conversation_id: string;
  readonly blocks: readonly FleetBlock[];
  readonly last_run: EndedRun | null;
}

/** The parts of the facts that a fleet shows; reading the others is left out. */
export interface FleetFacts {
  readonly system: boolean;
  /** Labels of blocks; null: all. */
  readonly labels: readonly string[] | null;
  /** The latest run, or the latest under a cursor that ended well; null: none is read. */
  readonly last_run: { readonly cursor: string | null } | null;
}

/** Reads facts about agents that are not deleted. Index: primary keys, `run_by_agent`. */
export async function readFleetAgents(
  db: Database,
  projectId: string,
  agentIds: readonly string[],
  facts: FleetFacts,
): Promise<ReadonlyMap<string, FleetAgent>> {
  const { rows } = await sql<FleetAgent>`
    select a.id, a.name, a.description, a.tags, a.metadata, ${facts.system ? sql`a.system` : sql`''`} as system, a.model, a.context_window_limit, a.conversation_id,
           ${blocksOf(facts.labels)} as blocks,
           ${lastRun(facts.last_run)} as last_run
      from agent a
     where a.id = any((select ${uuidArray(agentIds)}::uuid[])::uuid[])
       and coalesce(a.project_id = ${projectId}::uuid and a.deleted_at is null, false)
  `.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}

/** Selects the blocks of the agent `a` as JSON: those with the labels, or all. */
function blocksOf(labels: FleetFacts['labels']): RawBuilder<unknown> {
  if (labels?.length === 0) return sql`'[]'::json`;
  return sql`(
    select coalesce(json_agg(json_build_object('label', b.label, 'description', v.description,
             'value', v.value, 'read_only', v.read_only) order by k.position), '[]')
      from agent_block k
      join block b on b.id = k.block_id
      join block_revision v on v.block_id = b.id and v.revision = b.head_revision
     where k.agent_id = a.id and (${labels === null} or k.label = any(${labels ?? []}::text[])))`;
}

/** Selects the latest ended run of the agent `a` as JSON. */
function lastRun(wanted: FleetFacts['last_run']): RawBuilder<unknown> {
  if (wanted === null) return sql`null::json`;
  const { cursor } = wanted;
  const runs =
    cursor === null
      ? sql`run r where r.agent_id = a.id and r.ended_at is not null`
      : sql`cursor_span s join run r on r.id = s.run_id
             where s.agent_id = a.id and s.name = ${cursor} and r.stop_reason in ('end_turn', 'tool_rule')`;
  return sql`(
    select json_build_object('id', r.id, 'state', r.state, 'stop_reason', r.stop_reason, 'ended_at', r.ended_at,
             'result', r.result)
      from ${runs} order by r.created_at desc, r.id desc limit 1)`;
}
