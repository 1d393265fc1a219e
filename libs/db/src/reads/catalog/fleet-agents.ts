import type { RunState, StopReason } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/** A block as a fleet's input shows it. */
export interface FleetBlock {
  readonly id: string;
  readonly label: string;
  readonly description: string | null;
  readonly value: string;
  readonly read_only: boolean;
  readonly char_limit: number;
}

/** The latest ended run of an agent. */
export interface EndedRun {
  readonly id: string;
  readonly state: RunState;
  readonly stop_reason: StopReason | null;
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
  readonly system: string;
  readonly model: string;
  readonly context_window_limit: number;
  readonly conversation_id: string;
  readonly blocks: readonly FleetBlock[];
  readonly last_run: EndedRun | null;
}

/** The parts of the facts that a fleet shows; reading the others is left out. */
export interface FleetFacts {
  /** Labels of blocks; null: all. */
  readonly labels: readonly string[] | null;
  readonly last_run: boolean;
}

/** Reads facts about agents that are not deleted. Index: primary keys, `run_by_agent`. */
export async function readFleetAgents(
  db: Database,
  projectId: string,
  agentIds: readonly string[],
  facts: FleetFacts,
): Promise<ReadonlyMap<string, FleetAgent>> {
  const { rows } = await sql<FleetAgent>`
    select a.id, a.name, a.description, a.tags, a.metadata, a.system, a.model, a.context_window_limit, a.conversation_id,
           (select coalesce(json_agg(json_build_object('id', b.id, 'label', b.label, 'description', v.description,
                     'value', v.value, 'read_only', v.read_only, 'char_limit', v.char_limit) order by k.position), '[]')
              from agent_block k
              join block b on b.id = k.block_id
              join block_revision v on v.block_id = b.id and v.revision = b.head_revision
             where k.agent_id = a.id
               and (${facts.labels === null} or k.label = any(${facts.labels ?? []}::text[]))) as blocks,
           case when ${facts.last_run} then (
             select json_build_object('id', r.id, 'state', r.state, 'stop_reason', r.stop_reason, 'ended_at', r.ended_at,
                      'result', r.result)
               from run r where r.agent_id = a.id and r.ended_at is not null order by r.created_at desc, r.id desc limit 1)
             end as last_run
      from agent a
     where a.id = any((select ${uuidArray(agentIds)}::uuid[])::uuid[])
       and coalesce(a.project_id = ${projectId}::uuid and a.deleted_at is null, false)
  `.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}
