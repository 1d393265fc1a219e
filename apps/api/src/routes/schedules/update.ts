import { isDeepStrictEqual } from 'node:util';
import { nanoUsdOf } from '@nightshift/agent-core';
import {
  changeSchedule,
  inTransaction,
  lockSchedule,
  readLastTickDueAt,
  readNow,
  readSchedule,
  type ScheduleRow,
  type ScheduleSettings,
  type ScheduleTiming,
  type Tx,
} from '@nightshift/db';
import { afterTick, assertRule, withJitter } from '@nightshift/intake';
import { holdMore } from '../../body-budget.ts';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import {
  SCHEDULE_BYTES_MAX,
  schedulePatch,
  scheduleResponse,
  type SchedulePatch,
} from '../../schemas/schedule.ts';
import { answerSchedule } from './answer.ts';
import { assertBody, assertJitter, conflict } from './check-schedule.ts';
import { endsBefore } from './create.ts';
import { laterOf } from './pause.ts';
import { scheduleParams } from './read.ts';

/** Changes a schedule. The new settings are checked before anything is stored. */
export function updateSchedule(app: App, context: Context): void {
  app.patch(
    '/v1/schedules/:schedule_id',
    {
      bodyLimit: SCHEDULE_BYTES_MAX,
      schema: {
        operationId: 'updateSchedule',
        summary: 'Change a schedule',
        description:
          'Absent fields stay. A new rule, zone, jitter or end counts from now; an ended schedule with a further tick ' +
          'becomes active.',
        tags: ['schedules'],
        params: scheduleParams,
        body: schedulePatch,
        response: { 200: scheduleResponse, ...problems },
      },
    },
    async (request) => {
      const { schedule_id } = request.params;
      const { expected_revision, ...patch } = request.body;
      const seen = await readSchedule(context.db, context.projectId, schedule_id);
      const settings = merge(seen, patch);
      if (expected_revision !== undefined && expected_revision !== seen.revision) {
        // A request whose answer was lost comes twice.
        if (isDeepStrictEqual({ ...seen, ...settings }, seen)) return answerSchedule(context, schedule_id);
        throw conflict(schedule_id, `has revision ${seen.revision}, not ${expected_revision}.`);
      }
      const now = await readNow(context.db);
      if (patch.cron !== undefined || patch.time_zone !== undefined) assertRule(settings, now);
      assertJitter(settings, now);
      if (patch.body !== undefined || patch.max_cost_usd_per_month !== undefined) {
        await assertBody(context, settings, (bytes) => holdMore(request, bytes));
      }
      await inTransaction(context.db, async (trx) => {
        const present = await lockSchedule(trx, context.projectId, schedule_id);
        if (present.revision !== seen.revision) throw conflict(schedule_id, 'was changed meanwhile.');
        const timing = await timingOf(trx, present, settings, patch);
        await changeSchedule(trx, schedule_id, { ...settings, ...timing });
      });
      return answerSchedule(context, schedule_id);
    },
  );
}

function merge(present: ScheduleRow, patch: SchedulePatch): ScheduleSettings {
  const { ends_at, max_cost_usd_per_month: cap } = patch;
  return {
    name: patch.name ?? present.name,
    cron: patch.cron ?? present.cron,
    time_zone: patch.time_zone ?? present.time_zone,
    body: patch.body ?? present.body,
    overlap: patch.overlap ?? present.overlap,
    catch_up_window_s: patch.catch_up_window_s ?? present.catch_up_window_s,
    jitter_s: patch.jitter_s ?? present.jitter_s,
    ends_at: ends_at === undefined ? present.ends_at : ends_at === null ? null : new Date(ends_at),
    max_cost_nanousd_per_month:
      cap === undefined ? present.max_cost_nanousd_per_month : cap === null ? null : nanoUsdOf(cap),
    failures_max: patch.failures_max === undefined ? present.failures_max : patch.failures_max,
  };
}

/** Returns the next moment under the new settings; a present one stays unless a field that moves it changes. */
async function timingOf(
  trx: Tx,
  present: ScheduleRow,
  settings: ScheduleSettings,
  patch: SchedulePatch,
): Promise<ScheduleTiming> {
  const { id, state, state_reason, tick_due_at, next_due_at } = present;
  const isMoved = [patch.cron, patch.time_zone, patch.jitter_s, patch.ends_at].some(
    (field) => field !== undefined,
  );
  if (state === 'paused' || !isMoved) return { state, state_reason, tick_due_at, next_due_at };
  const now = await readNow(trx);
  const isOfRule = patch.cron === undefined && patch.time_zone === undefined;
  // A tick that is due waits for its jitter or a worker: it stays, or it would be lost without a row.
  if (isOfRule && tick_due_at !== null && tick_due_at <= now && tick_due_at <= (settings.ends_at ?? now))
    return { state, state_reason, tick_due_at, next_due_at: withJitter({ id, ...settings }, tick_due_at) };
  const timing = afterTick({ id, ...settings }, laterOf(now, await readLastTickDueAt(trx, id)));
  if (timing.state === 'active') return timing;
  if (state === 'active') throw endsBefore();
  return { state, state_reason, tick_due_at, next_due_at };
}
