import type { Trail } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../connect.ts';

/** A call that awaits the caller, or did, with what its arguments can be worked out from. */
export interface AwaitedCallRow {
  readonly step_number: number;
  readonly call_index: number;
  readonly tool_use_id: string;
  readonly tool_name: string;
  readonly awaits: 'approval' | 'answer';
  readonly verdict: 'approved' | 'denied' | 'answered' | null;
  readonly answer_sha256: string | null;
}

/** What the calls of a run were planned from: its definition, its trail, and its answer as stored. */
export interface AwaitingRun {
  readonly definition_id: string;
  readonly step_number: number;
  readonly trail: Trail | null;
  /** The stored content of the run's last message. */
  readonly content: string;
}

/** All calls of a run that await the caller or did, in order. Index: primary key. */
export async function readAwaitedCalls(db: Database, runId: string): Promise<readonly AwaitedCallRow[]> {
  const { rows } = await sql<AwaitedCallRow>`
    select step_number, call_index, tool_use_id, tool_name, awaits, verdict, answer_sha256
      from tool_call where run_id = ${runId}::uuid and awaits is not null
     order by step_number, call_index
  `.execute(db);
  return rows;
}

/** A run in `requires_action`; null in any other state. Index: primary keys. */
export async function readAwaitingRun(db: Database, runId: string): Promise<AwaitingRun | null> {
  const { rows } = await sql<AwaitingRun>`
    select r.definition_id, r.step_number, r.trail, m.content::text as content
      from run r join message m on m.conversation_id = r.conversation_id and m.seq = r.last_seq
     where r.id = ${runId}::uuid and r.state = 'requires_action'
  `.execute(db);
  return rows[0] ?? null;
}
