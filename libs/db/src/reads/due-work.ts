import type { BatchState, ProviderBatchState } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../connect.ts';
import {
  FREED_BUDGETS,
  IS_DUE,
  IS_IDLE,
  IS_TRIAL_DUE,
  isAnyOverdue,
  isAuditDue,
  isEmptied,
  isExpired,
  isOldDeletedItem,
  isOldKey,
  isOldTrial,
  isOldUpload,
  oldEvents,
} from './due-conditions.ts';

/** The parameters of a look for due work. */
export interface DueWorkQuestion<P extends ProviderBatchState, B extends BatchState> {
  readonly provider_batch_states: readonly P[];
  readonly batch_states: readonly B[];
  /** Unit: ms. */
  readonly audit_interval_ms: number;
  /** Age at which idempotency keys are deleted. Unit: days. */
  readonly idempotency_key_days: number;
  /** Age at which the cursors of deleted items are forgotten. Unit: days. */
  readonly deleted_item_days: number;
  /** Age at which events are forgotten. Unit: days. */
  readonly event_days: number;
  /** Age at which ended batches are forgotten; null: never. Unit: days. */
  readonly retention_days: number | null;
  /** Age at which provider batches without steps are removed. Unit: days. */
  readonly provider_batch_days: number;
  /** Age at which uploads without an end are dropped. Unit: hours. */
  readonly upload_hours: number;
  /** Age at which trials of tools are forgotten. Unit: hours. */
  readonly trial_hours: number;
  /**
   * Maximum runs past their deadline to examine, including runs at the provider, and maximum batches of each kind past their
   * time, including batches that must wait; null: all.
   */
  readonly late_runs_max: number | null;
}

/** The kinds of due work. */
export interface DueWork<P extends ProviderBatchState, B extends BatchState> {
  /** The states with due rows without a holder. */
  readonly provider_batch_states: readonly P[];
  readonly batch_states: readonly B[];
  /** Callbacks of batches report events. */
  readonly callback_events: boolean;
  /** Runs are ready to be sealed, or their delay has ended. */
  readonly ready_runs: boolean;
  /** Runs wait for their calls to be carried out. */
  readonly open_calls: boolean;
  /** Trials of tools wait for a worker. */
  readonly trials: boolean;
  /** A sweep may find work without a due row, or rows to delete. */
  readonly sweep: boolean;
  readonly audit: boolean;
  /** Batches are to be forgotten, or rows of forgotten ones removed. */
  readonly forget: boolean;
  /** A schedule is due, or will be within a minute: the flow then waits for the exact time. */
  readonly schedules: boolean;
}

/**
 * Reads which work is due, in one statement of index look-ups. The cost grows only with the runs past their deadline.
 * The conditions are those of the claims. It locks nothing, so another worker may claim the work first.
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
           exists (select from callback_event where next_due_at <= app_now()) as callback_events,
           exists (select from run_chunk where kind = 'ready' and next_due_at <= app_now()) as ready_runs,
           exists (select from run_chunk where kind = 'tools' and ${IS_DUE}) as open_calls,
           exists (select from tool_trial where ${IS_TRIAL_DUE}) as trials,
           ${isAnyOverdue(question.late_runs_max)}
             or exists (select from batch b where ${IS_IDLE})
             or exists (select ${FREED_BUDGETS})
             or exists (select from queued_input)
             or exists (select from agent where keeps_blocks)
             or exists (select from idempotency_key where ${isOldKey(question.idempotency_key_days)})
             or exists (select from deleted_item where ${isOldDeletedItem(question.deleted_item_days)})
             or exists (${oldEvents(question.event_days, 1)})
             or exists (select from upload where ${isOldUpload(question.upload_hours)})
             or exists (select from tool_trial where ${isOldTrial(question.trial_hours)}) as sweep,
           ${isAuditDue(question.audit_interval_ms)} as audit,
           exists (select from forgotten_batch where ${IS_DUE})
             or exists (${isExpired(question.retention_days, 1, question.late_runs_max)})
             or exists (select from provider_batch where ${isEmptied(question.provider_batch_days)}) as forget,
           exists (select from schedule where next_due_at <= app_now() + interval '1 minute') as schedules
  `.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error('The database returned no row about due work.');
  return row;
}
