import type { BatchState, RunState, Trail } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../connect.ts';

/** A run as the worker decides about it. */
export interface LockedRun {
  readonly id: string;
  readonly project_id: string;
  readonly batch_id: string;
  readonly batch_state: BatchState;
  /** Whether its changes of memory are in force at once, or held. */
  readonly batch_apply: 'auto' | 'review';
  /** Whether its batch, or a run of it, has a cap. */
  readonly budgeted: boolean;
  readonly agent_id: string;
  readonly conversation_id: string;
  readonly definition_id: string;
  readonly state: RunState;
  readonly step_number: number;
  readonly attempt: number;
  readonly failures: number;
  /** Steps that it may take, with those that have summarised. */
  readonly max_steps: number;
  readonly token_boost: number;
  readonly last_seq: number;
  /** Null for a run that has done nothing yet. */
  readonly trail: Trail | null;
  /** The last message that its step under way summarises; null where that is an ordinary one. */
  readonly summarises_to_seq: number | null;
  readonly is_overdue: boolean;
}

/**
 * Locks runs in id order, so that two workers that share runs wait and never deadlock, and reads them with the state
 * of their batch. `for no key update`: inserts that refer to a run are not held up.
 */
export async function lockRuns(trx: Tx, runIds: readonly string[]): Promise<ReadonlyMap<string, LockedRun>> {
  const { rows } = await sql<LockedRun>`
    select r.id, r.project_id, r.batch_id, b.state as batch_state, b.apply as batch_apply, b.budgeted, r.agent_id, r.conversation_id, r.definition_id,
           r.state, r.step_number, r.attempt, r.failures, r.max_steps + r.summary_steps as max_steps, r.token_boost,
           coalesce(r.last_seq, -1) as last_seq, r.summarises_to_seq, r.trail,
           coalesce(r.deadline_at <= (select app_now()), false) as is_overdue
      from run r join batch b on b.id = r.batch_id
     where r.id = any(${runIds}::uuid[])
     order by r.id
       for no key update of r
  `.execute(trx);
  return new Map(rows.map((row) => [row.id, row]));
}
