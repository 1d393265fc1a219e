import { NightshiftError } from '@nightshift/agent-core';
import { sql, type RawBuilder } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import { isBrokenConstraint } from '../../judge-error.ts';
import { lockSchedule } from '../../locks/schedule/lock-schedule.ts';
import { deleteListedItem } from '../catalog/deleted-item.ts';
import { storableJson } from '../json-rows.ts';
import type { ScheduleRow } from '../../reads/schedule/schedules.ts';

/** The fields of a schedule that its user sets. */
export type ScheduleSettings = Pick<
  ScheduleRow,
  | 'name'
  | 'cron'
  | 'time_zone'
  | 'body'
  | 'overlap'
  | 'catch_up_window_s'
  | 'jitter_s'
  | 'ends_at'
  | 'max_cost_nanousd_per_month'
  | 'failures_max'
>;

/** The state of a schedule and its next moment. */
export type ScheduleTiming = Pick<ScheduleRow, 'state' | 'state_reason' | 'tick_due_at' | 'next_due_at'>;

/** A waiting tick makes its schedule due: the end of its batch may have been noted before. */
function dueIfWaiting(otherwise: Date | null): RawBuilder<Date | null> {
  return sql<Date | null>`
    case when exists (select from tick where schedule_id = schedule.id and outcome = 'waiting') then app_now()
         else ${otherwise}::timestamptz end`;
}

/** Stores a schedule. Throws: `conflict` for a taken name. */
export async function createSchedule(
  trx: Tx,
  projectId: string,
  schedule: ScheduleSettings & ScheduleTiming & { readonly id: string },
): Promise<void> {
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto('schedule')
    .values({ ...schedule, project_id: projectId, body: storableJson(schedule.body) })
    .onConflict((conflict) => conflict.columns(['project_id', 'name']).doNothing())
    .executeTakeFirst();
  if (numInsertedOrUpdatedRows !== 1n) throw takenName(schedule.name);
}

/**
 * Changes a schedule, which the caller holds, as a new revision.
 * Throws: `conflict` for a taken name.
 */
export async function changeSchedule(
  trx: Tx,
  scheduleId: string,
  schedule: ScheduleSettings & ScheduleTiming,
): Promise<void> {
  const { next_due_at, ...columns } = schedule;
  try {
    await trx
      .updateTable('schedule')
      .set({ ...columns, body: storableJson(schedule.body), updated_at: NOW })
      .set({ next_due_at: dueIfWaiting(next_due_at) })
      .set((eb) => ({ revision: eb('revision', '+', 1) }))
      .where('id', '=', scheduleId)
      .execute();
  } catch (error) {
    throw isBrokenConstraint(error) ? takenName(schedule.name) : error;
  }
}

function takenName(name: string): NightshiftError {
  const fields = [{ path: '/name', message: 'is the name of another schedule' }];
  return new NightshiftError('conflict', `There is a schedule '${name}' already.`, { fields });
}

/**
 * Pauses a schedule, which the caller holds. It skips a waiting tick of the rule; a waiting manual tick still runs.
 */
export async function commitSchedulePaused(trx: Tx, scheduleId: string, reason: string): Promise<void> {
  await trx
    .updateTable('tick')
    .set({ outcome: 'skipped', reason: 'paused', message: 'The schedule is paused.' })
    .where('schedule_id', '=', scheduleId)
    .where('outcome', '=', 'waiting')
    .where('is_manual', '=', false)
    .execute();
  await trx
    .updateTable('schedule')
    .set({
      state: 'paused',
      state_reason: reason,
      tick_due_at: null,
      next_due_at: dueIfWaiting(null),
      updated_at: NOW,
    })
    .where('id', '=', scheduleId)
    .execute();
}

/** Resumes a schedule, which the caller holds, at its next moment. Failed ticks count anew. */
export async function commitScheduleResumed(
  trx: Tx,
  scheduleId: string,
  timing: ScheduleTiming,
): Promise<void> {
  const { state, state_reason, tick_due_at, next_due_at } = timing;
  await trx
    .updateTable('schedule')
    .set({ state, state_reason, tick_due_at, resumed_at: NOW, updated_at: NOW })
    .set({ next_due_at: dueIfWaiting(next_due_at) })
    .where('id', '=', scheduleId)
    .execute();
}

/**
 * Deletes a schedule with its ticks. Its batches stay, and no longer name it.
 * Throws: `not_found`.
 * Locks: its batches, then the schedule, then batches stored meanwhile.
 */
export async function deleteSchedule(trx: Tx, projectId: string, scheduleId: string): Promise<void> {
  await releaseBatches(trx, projectId, scheduleId);
  await lockSchedule(trx, projectId, scheduleId);
  await releaseBatches(trx, projectId, scheduleId);
  await deleteListedItem(trx, 'schedule', projectId, scheduleId);
}

async function releaseBatches(trx: Tx, projectId: string, scheduleId: string): Promise<void> {
  await trx
    .updateTable('batch')
    .set({ schedule_id: null, tick_due_at: null })
    .where('schedule_id', '=', scheduleId)
    .where('project_id', '=', projectId)
    .execute();
}
