import type { BatchState, ToolCallState, Trail } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/** A run with open calls: its answer as stored, and the rows of its calls. */
export interface ActingRun {
  readonly run_id: string;
  readonly agent_id: string;
  readonly definition_id: string;
  readonly batch_state: BatchState;
  readonly is_cancel_requested: boolean;
  readonly step_number: number;
  /** Before the answer. */
  readonly trail: Trail | null;
  /** The stored content of the message with the calls. */
  readonly content: string;
  readonly calls: readonly {
    readonly call_index: number;
    readonly state: ToolCallState;
    readonly held_result: string | null;
    readonly verdict: 'approved' | 'denied' | 'answered' | null;
  }[];
}

/** Reads the given runs that are `acting`, in id order. Index: primary keys. */
export async function readActingRuns(db: Database, runIds: readonly string[]): Promise<readonly ActingRun[]> {
  const { rows } = await sql<ActingRun>`
    select r.id as run_id, r.agent_id, r.definition_id,
           (select b.state from batch b where b.id = r.batch_id) as batch_state,
           r.cancel_requested_at is not null as is_cancel_requested, r.step_number, r.trail,
           m.content::text as content,
           (select coalesce(json_agg(json_build_object('call_index', c.call_index, 'state', c.state, 'held_result', c.held_result,
                                             'verdict', c.verdict)
                                     order by c.call_index), '[]')
              from tool_call c where c.run_id = r.id and c.step_number = r.step_number) as calls
      from run r
      join message m on m.conversation_id = r.conversation_id and m.seq = r.last_seq
     where r.id = any(${uuidArray(runIds)}::uuid[]) and r.state = 'acting'
     order by r.id
  `.execute(db);
  return rows;
}
