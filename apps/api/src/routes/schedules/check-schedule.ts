import { ISSUES_MAX, NightshiftError, toWireId } from '@nightshift/agent-core';
import { inTransaction, readNow, type ScheduleSettings } from '@nightshift/db';
import {
  nextTicks,
  prepareBatch,
  storeBatch,
  type BatchRequest,
  type PreparedBatch,
} from '@nightshift/intake';
import type { Context } from '../../context.ts';

/** Ticks whose distances limit the jitter. */
const TICKS_COMPARED = 100;

/**
 * Refuses a jitter that could move a tick past the next one.
 * Throws: `validation_failed`.
 */
export function assertJitter(
  schedule: Pick<ScheduleSettings, 'cron' | 'time_zone' | 'jitter_s'>,
  now: Date,
): void {
  if (schedule.jitter_s === 0) return;
  const ticks = nextTicks(schedule, now, TICKS_COMPARED);
  const shortestMs = Math.min(
    ...ticks.slice(1).map((tick, index) => tick.getTime() - (ticks[index]?.getTime() ?? 0)),
  );
  if (schedule.jitter_s * 1000 < shortestMs) return;
  const message = `must be less than the shortest time between two ticks, ${shortestMs / 1000} s`;
  throw new NightshiftError('validation_failed', `/jitter_s ${message}.`, {
    fields: [{ path: '/jitter_s', message }],
  });
}

/**
 * Checks the body of a schedule as a batch would be: makes a batch of it in a transaction that is rolled back.
 * `hold` gets the bytes of each filled template.
 * Throws: the refusal of the batch, with pointers into `/body`.
 */
export async function assertBody(
  { db, projectId, prices }: Context,
  { body, max_cost_nanousd_per_month }: Pick<ScheduleSettings, 'body' | 'max_cost_nanousd_per_month'>,
  hold: (bytes: number) => void,
): Promise<void> {
  const rolledBack = new Error('The trial of a batch is rolled back.');
  try {
    assertNoDeadline(body as BatchRequest);
    const prepared = await prepareBatch(body as BatchRequest, hold);
    const now = await readNow(db);
    await inTransaction(db, async (trx) => {
      await storeBatch(trx, projectId, prepared, {
        now,
        prices,
        idempotency: null,
        max_cost_nanousd: max_cost_nanousd_per_month,
      });
      throw rolledBack;
    });
  } catch (error) {
    if (error === rolledBack) return;
    throw error instanceof NightshiftError ? ofBody(error, hasOwnCap(body)) : error;
  }
}

/** Prepares the body of a stored schedule. Throws: the refusal of the batch, with pointers into `/body`. */
export async function prepareBody(body: unknown, hold: (bytes: number) => void): Promise<PreparedBatch> {
  try {
    return await prepareBatch(body as BatchRequest, hold);
  } catch (error) {
    throw error instanceof NightshiftError ? ofBody(error, hasOwnCap(body)) : error;
  }
}

/** Refuses deadlines, which are moments: after the first, every tick would be refused. */
function assertNoDeadline(body: BatchRequest): void {
  const { requests, template } = 'agents' in body ? {} : body;
  const paths = [
    ...(body.deadline == null ? [] : ['/deadline']),
    ...(template?.deadline == null ? [] : ['/template/deadline']),
    ...(requests ?? []).flatMap(({ deadline }, index) =>
      deadline == null ? [] : [`/requests/${index}/deadline`],
    ),
  ];
  const [first] = paths;
  if (first === undefined) return;
  const message = 'is not for a schedule: all ticks after that time would be refused';
  throw new NightshiftError('validation_failed', `${first} ${message}.`, {
    fields: paths.slice(0, ISSUES_MAX).map((path) => ({ path, message })),
  });
}

function hasOwnCap(body: unknown): boolean {
  return (body as BatchRequest).max_cost_usd != null;
}

/** Moves the pointers of an error from a batch's body into that of a schedule. */
export function ofBody(error: NightshiftError, hasCap: boolean): NightshiftError {
  const move = (path: string): string =>
    path === '/max_cost_usd' && !hasCap
      ? '/max_cost_usd_per_month'
      : path.startsWith('/')
        ? `/body${path}`
        : path;
  const fields = error.fields.map(({ path, message }) => ({ path: move(path), message }));
  const [pointer = ''] = error.message.split(/[\s:]/, 1);
  const message = pointer.startsWith('/')
    ? move(pointer) + error.message.slice(pointer.length)
    : error.message;
  return new NightshiftError(error.code, message, { fields, fields_total: error.fields_total, cause: error });
}

/** Makes the error of a schedule that is not as the caller expects. */
export function conflict(scheduleId: string, message: string): NightshiftError {
  return new NightshiftError('conflict', `The schedule ${toWireId('schedule', scheduleId)} ${message}`);
}
