import type { BatchState, RunFacts } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../connect.ts';
import { uuidArray } from '../../uuid-array.ts';

/** A run with the facts for the core, its batch and its project. */
export interface RunToDecide extends RunFacts {
  readonly project_id: string;
  readonly batch_id: string;
  /** Whether its memory changes take effect at once, or are held. */
  readonly batch_apply: 'auto' | 'review';
  /** Whether its batch, or a run of the batch, has a cap. */
  readonly budgeted: boolean;
  readonly agent_id: string;
  readonly conversation_id: string;
  readonly definition_id: string;
  readonly is_overdue: boolean;
  readonly is_cancel_requested: boolean;
  readonly failing_for_ms: number | null;
}

/**
 * Reads runs with the state of their batch, in id order, without locks. Decisions about them are committed only if the
 * state is unchanged: the statements of `commitDecisions` name the expected states.
 * Index: primary keys.
 */
export async function readRunsToDecide(
  db: Database,
  runIds: readonly string[],
): Promise<ReadonlyMap<string, RunToDecide>> {
  const { rows } = await sql<RunToDecide>`${selectRuns(runIds)} order by r.id`.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}

/** Reads the states of batches. Index: primary key. */
export async function readBatchStates(
  db: Database,
  batchIds: readonly string[],
): Promise<ReadonlyMap<string, BatchState>> {
  const { rows } = await sql<{ id: string; state: BatchState }>`
    select id, state from batch where id = any((select ${uuidArray(batchIds)}::uuid[])::uuid[])
  `.execute(db);
  return new Map(rows.map(({ id, state }) => [id, state]));
}

/** Selects runs as {@link RunToDecide}, unordered. */
export function selectRuns(runIds: readonly string[]): RawBuilder<RunToDecide> {
  return sql`
    select r.id, r.project_id, r.batch_id, b.state as batch_state, b.apply as batch_apply, b.budgeted, r.agent_id, r.conversation_id, r.definition_id,
           r.state, r.step_number, r.attempt, r.failures, r.max_steps + r.summary_steps as max_steps, r.token_boost,
           coalesce(r.last_seq, -1) as last_seq, r.summarises_to_seq, r.trail,
           coalesce(r.deadline_at <= (select app_now()), false) as is_overdue,
           r.cancel_requested_at is not null as is_cancel_requested,
           case when r.failing_since is not null
                then (extract(epoch from (select app_now()) - r.failing_since) * 1000)::float8 end as failing_for_ms
      from run r join batch b on b.id = r.batch_id
     where r.id = any((select ${uuidArray(runIds)}::uuid[])::uuid[])`;
}
