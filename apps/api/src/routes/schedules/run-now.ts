import { NightshiftError, toUsd } from '@nightshift/agent-core';
import {
  listTicks,
  lockSchedule,
  readNow,
  readSchedule,
  readScheduleFacts,
  writeTick,
  type ScheduleRow,
  type TickRow,
  type Tx,
} from '@nightshift/db';
import {
  signalsOfStored,
  storeTickBatch,
  waiting as waitingTick,
  type BatchRequest,
  type PreparedBatch,
  type StoredBatch,
  type TickSettings,
} from '@nightshift/intake';
import { holdMore } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { problems } from '../../schemas/answers.ts';
import { tickResponse } from '../../schemas/schedule.ts';
import { toTickResponse } from '../../wire/to-schedule.ts';
import { conflict, ofBody, prepareBody } from './check-schedule.ts';
import { scheduleParams } from './read.ts';

interface ManualTick {
  readonly due_at: Date;
  /** Null: the tick waits. */
  readonly batch: StoredBatch | null;
}

/** Makes a tick by request, also of a paused or ended schedule. */
export function runSchedule(app: App, context: Context): void {
  app.post(
    '/v1/schedules/:schedule_id/run-now',
    {
      schema: {
        operationId: 'runSchedule',
        summary: 'Submit the batch of a schedule now',
        description:
          'Works while the schedule is paused, too. While a batch of it is open: a conflict, or with `overlap: queue` a ' +
          'tick that waits.',
        tags: ['schedules'],
        params: scheduleParams,
        headers: idempotencyHeaders,
        response: { 200: tickResponse, ...problems },
      },
    },
    (request, reply) => {
      const { schedule_id } = request.params;
      let batch: StoredBatch | null = null;
      return makeOnce(context, request, reply, {
        prepare: async () => {
          const seen = await readSchedule(context.db, context.projectId, schedule_id);
          return { seen, body: await prepareBody(seen.body, (bytes) => holdMore(request, bytes)) };
        },
        make: async (trx, { seen, body }) => {
          const tick = await makeTick(trx, context, seen, body);
          ({ batch } = tick);
          return { due_at: tick.due_at.toISOString() };
        },
        show: async ({ due_at }) => {
          if (batch !== null) await context.bell.ring(signalsOfStored(batch));
          return toTickResponse(await readTick(context, schedule_id, new Date(due_at)));
        },
      });
    },
  );
}

/** Throws: `not_found` for a deleted schedule. */
async function readTick({ db, projectId }: Context, scheduleId: string, dueAt: Date): Promise<TickRow> {
  const [tick] = await listTicks(db, scheduleId, { before: new Date(dueAt.getTime() + 1), limit: 1 });
  if (tick?.due_at.getTime() === dueAt.getTime()) return tick;
  await readSchedule(db, projectId, scheduleId);
  throw conflict(scheduleId, 'has forgotten the tick.');
}

async function makeTick(
  trx: Tx,
  context: Context,
  seen: ScheduleRow,
  prepared: PreparedBatch,
): Promise<ManualTick> {
  const schedule = await lockSchedule(trx, context.projectId, seen.id);
  if (schedule.revision !== seen.revision) throw conflict(seen.id, 'was changed meanwhile.');
  const now = await readNow(trx);
  const due_at = betweenSeconds(now);
  const tick = { due_at, is_manual: true, was_waiting: false };
  const { has_open_batch, waiting } = await readScheduleFacts(trx, schedule);
  if (has_open_batch || waiting !== null) {
    if (schedule.overlap === 'skip')
      throw conflict(seen.id, 'has an open batch. Wait for its end, or cancel it.');
    if (waiting !== null) throw conflict(seen.id, 'has a tick that waits for the end of the open batch.');
    await writeTick(trx, schedule, waitingTick(tick), null);
    return { due_at, batch: null };
  }
  const settings = { due_at, now, prices: context.prices };
  const batch = await store(trx, schedule, prepared, settings);
  await writeTick(trx, schedule, { ...tick, kind: 'start' }, batch.batch_id);
  return { due_at, batch };
}

/** Keeps a manual tick apart from the rule's, which are on whole minutes. */
function betweenSeconds(now: Date): Date {
  return now.getMilliseconds() === 0 ? new Date(now.getTime() + 1) : now;
}

async function store(
  trx: Tx,
  schedule: ScheduleRow,
  prepared: PreparedBatch,
  settings: TickSettings,
): Promise<StoredBatch> {
  try {
    const batch = await storeTickBatch(trx, schedule, prepared, settings);
    if (batch !== null) return batch;
  } catch (error) {
    if (!(error instanceof NightshiftError)) throw error;
    throw ofBody(error, (schedule.body as BatchRequest).max_cost_usd != null);
  }
  const cap = toUsd(schedule.max_cost_nanousd_per_month);
  throw conflict(
    schedule.id,
    `has nothing left of its $${cap ?? ''} of this month: raise max_cost_usd_per_month.`,
  );
}
