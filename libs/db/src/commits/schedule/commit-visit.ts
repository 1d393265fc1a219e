import { NightshiftError } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { NOW } from '../../fragments.ts';
import type { ScheduleRow } from '../../reads/schedule/schedules.ts';
import type { ScheduleState, TickOutcome } from '../../tables.ts';

interface DecidedTick {
  readonly due_at: Date;
  readonly is_manual: boolean;
  /** Its row exists, as `waiting`. */
  readonly was_waiting: boolean;
}

/** The decision about one tick. */
export type TickDecision = DecidedTick &
  (
    | { readonly kind: 'start' }
    | { readonly kind: 'wait' | 'skip' | 'refuse'; readonly reason: string; readonly message: string }
  );

/** The outcome of one look at a schedule. */
export interface ScheduleVisit {
  /** Moments recorded as missed, in order. */
  readonly missed: readonly Date[];
  readonly tick: TickDecision | null;
  readonly state: ScheduleState;
  readonly state_reason: string | null;
  readonly tick_due_at: Date | null;
  readonly next_due_at: Date | null;
}

const OUTCOMES = {
  start: 'started',
  wait: 'waiting',
  skip: 'skipped',
  refuse: 'refused',
} as const satisfies Record<TickDecision['kind'], TickOutcome>;

/**
 * Writes the ticks of a visit and the next moment of the schedule, which the caller holds. `batchId` is the batch of a
 * started tick, stored in the same transaction.
 * Throws: `stale`, keeping nothing, if the schedule has moved on or the tick has a row.
 */
export async function commitVisit(
  trx: Tx,
  schedule: Pick<ScheduleRow, 'id' | 'project_id' | 'tick_due_at'>,
  visit: ScheduleVisit,
  batchId: string | null,
): Promise<void> {
  await insertMissed(trx, schedule, visit.missed);
  if (visit.tick !== null) await writeTick(trx, schedule, visit.tick, batchId);
  const { state, state_reason, tick_due_at, next_due_at } = visit;
  const { numUpdatedRows } = await trx
    .updateTable('schedule')
    .set({ state, state_reason, tick_due_at, next_due_at })
    .where('id', '=', schedule.id)
    .where('tick_due_at', 'is not distinct from', schedule.tick_due_at)
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) throw moved(schedule.id);
}

async function insertMissed(
  trx: Tx,
  { id, project_id }: Pick<ScheduleRow, 'id' | 'project_id'>,
  missed: readonly Date[],
): Promise<void> {
  if (missed.length === 0) return;
  await sql`
    insert into tick (schedule_id, due_at, project_id, outcome, reason, message)
    select ${id}::uuid, due_at, ${project_id}::uuid, 'missed', 'outage', 'No worker took it in time.'
      from unnest(${missed.map((due_at) => due_at.toISOString())}::timestamptz[]) as m(due_at)
    on conflict do nothing
  `.execute(trx);
}

/** Writes the row of a tick. Throws: `stale`. */
export async function writeTick(
  trx: Tx,
  { id, project_id }: Pick<ScheduleRow, 'id' | 'project_id'>,
  tick: TickDecision,
  batchId: string | null,
): Promise<void> {
  const { due_at, is_manual } = tick;
  const row = {
    outcome: OUTCOMES[tick.kind],
    reason: tick.kind === 'start' ? null : tick.reason,
    message: tick.kind === 'start' ? null : tick.message,
    batch_id: tick.kind === 'start' ? batchId : null,
  };
  if (tick.was_waiting) {
    const { numUpdatedRows } = await trx
      .updateTable('tick')
      .set(row)
      .where('schedule_id', '=', id)
      .where('due_at', '=', due_at)
      .where('outcome', '=', 'waiting')
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) throw moved(id);
    return;
  }
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto('tick')
    .values({ schedule_id: id, project_id, due_at, is_manual, ...row })
    .onConflict((conflict) => conflict.columns(['schedule_id', 'due_at']).doNothing())
    .executeTakeFirst();
  if (numInsertedOrUpdatedRows !== 1n) throw moved(id);
}

function moved(scheduleId: string): NightshiftError {
  return new NightshiftError('stale', `The schedule schedule-${scheduleId} has moved on.`);
}

/** Makes a schedule wait after an unexpected error, so that it does not keep workers from others. */
export async function commitScheduleDelayed(trx: Tx, scheduleId: string, delayMs: number): Promise<void> {
  await trx
    .updateTable('schedule')
    .set({ next_due_at: sql<Date>`app_now() + ${delayMs} * interval '1 millisecond'` })
    .where('id', '=', scheduleId)
    .where('next_due_at', '<=', NOW)
    .execute();
}
