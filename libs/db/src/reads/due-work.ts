import type { BatchState, ProviderBatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../connect.ts';
import { FREED_BUDGETS, IS_DUE, IS_IDLE, isAnyOverdue, isAuditDue, isOldKey } from './due-conditions.ts';

/** What a look for work asks for. */
export interface DueWorkQuestion<P extends ProviderBatchState, B extends BatchState> {
  readonly provider_batch_states: readonly P[];
  readonly batch_states: readonly B[];
  /** Milliseconds between two audits. */
  readonly audit_interval_ms: number;
  /** After so many days idempotency keys are forgotten. */
  readonly idempotency_key_days: number;
  /** So many runs past their deadline are gone through, those at the provider among them; null: all. */
  readonly late_runs_max: number | null;
}

/** What would find work if it looked now. */
export interface DueWork<P extends ProviderBatchState, B extends BatchState> {
  /** Those states in which rows are due that nobody holds. */
  readonly provider_batch_states: readonly P[];
  readonly batch_states: readonly B[];
  /** Runs are ready to be sealed, or were put off until now. */
  readonly ready_runs: boolean;
  /** Runs wait for their calls to be carried out. */
  readonly open_calls: boolean;
  /** A sweep may find something: what no due row names, or rows to clear away. */
  readonly sweep: boolean;
  readonly audit: boolean;
}

/**
 * Reads which work is due, in one statement of index look-ups, whatever there is but runs past their deadline. It asks what the claims ask, by the same
 * conditions, and locks nothing: who claims may still find that somebody else was first.
 */
export async function readDueWork<P extends ProviderBatchState, B extends BatchState>(
  db: Database,
  question: DueWorkQuestion<P, B>,
): Promise<DueWork<P, B>> {
  const { rows } = await sql<DueWork<P, B>>`
    select array(select s from unnest(${question.provider_batch_states}::text[]) s
                  where exists (select from provider_batch where state = s and ${IS_DUE})) as provider_batch_states,
           array(select s from unnest(${question.batch_states}::text[]) s
                  where exists (select from batch where state = s and ${IS_DUE})) as batch_states,
           exists (select from run_chunk where kind = 'ready' and next_due_at <= app_now()) as ready_runs,
           exists (select from run_chunk where kind = 'tools' and ${IS_DUE}) as open_calls,
           ${isAnyOverdue(question.late_runs_max)}
             or exists (select from batch b where ${IS_IDLE})
             or exists (select ${FREED_BUDGETS})
             or exists (select from queued_input)
             or exists (select from agent where keeps_blocks)
             or exists (select from idempotency_key where ${isOldKey(question.idempotency_key_days)}) as sweep,
           ${isAuditDue(question.audit_interval_ms)} as audit
  `.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error('The database did not say what is due.');
  return row;
}
