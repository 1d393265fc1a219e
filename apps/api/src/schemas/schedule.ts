import { z } from 'zod';
import { batchInput } from './batch.ts';
import { shownId } from './ids.ts';
import { maxCostUsd } from './run-options.ts';
import { moment, shownTime } from './moment.ts';
import { trimmedName } from './text.ts';
import { usd } from './usage.ts';
import { SCHEDULE, TICK } from './examples/batches.ts';

/** Maximum size of a schedule as JSON in bytes: every tick reads it. */
export const SCHEDULE_BYTES_MAX = 32 * 1024 * 1024;
const SECONDS_MAX = 31_536_000;
const INT_MAX = 2_147_483_647;

const rule = {
  cron: z
    .string()
    .max(200)
    .describe(
      'Five fields: minute, hour, day, month, weekday. A rule with fixed hours and minutes runs at the end of a gap in ' +
        'local time, and once where an hour comes twice.',
    ),
  time_zone: z.string().max(100).describe('IANA time zone of the rule, such as Europe/Berlin.'),
};

const options = {
  overlap: z
    .enum(['skip', 'queue'])
    .describe(
      'A tick while the last batch is open. `skip`: makes no batch. `queue`: waits for its end; one tick at a time.',
    ),
  catch_up_window_s: z
    .int()
    .min(60)
    .max(SECONDS_MAX)
    .describe('After an outage the latest missed tick runs if it is at most this late. Default: 3600.'),
  jitter_s: z
    .int()
    .min(0)
    .max(86_400)
    .describe('A tick starts up to this much later, by a delay fixed per tick. Default: 0.'),
  ends_at: moment.nullable().describe('No tick after this time.'),
  max_cost_usd_per_month: maxCostUsd
    .nullable()
    .describe('Most US dollars of all batches whose ticks are in one calendar month of the zone.'),
  failures_max: z
    .int()
    .min(1)
    .max(INT_MAX)
    .nullable()
    .describe('Failed ticks in a row after which the schedule pauses. Failed: refused, or its batch failed.'),
};

const body = batchInput.describe('The batch that each tick submits, as in `POST /v1/messages/batches`.');

export const scheduleInput = z
  .strictObject({
    name: trimmedName(200).describe('Unique.'),
    ...rule,
    body,
    overlap: options.overlap.default('skip'),
    catch_up_window_s: options.catch_up_window_s.default(3_600),
    jitter_s: options.jitter_s.default(0),
    ends_at: options.ends_at.default(null),
    max_cost_usd_per_month: options.max_cost_usd_per_month.default(null),
    failures_max: options.failures_max.default(null),
  })
  .meta({
    id: 'ScheduleCreate',
    examples: [
      {
        name: 'nightly',
        cron: '0 2 * * *',
        time_zone: 'Europe/Berlin',
        body: {
          requests: [
            {
              agent_id: 'agent-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e90',
              input: 'Read the notes of today and update your memory.',
            },
          ],
          max_cost_usd: 25,
        },
      },
    ],
  });
export type ScheduleInput = z.output<typeof scheduleInput>;

export const schedulePatch = z
  .strictObject({
    name: trimmedName(200).optional(),
    cron: rule.cron.optional(),
    time_zone: rule.time_zone.optional(),
    body: body.optional(),
    overlap: options.overlap.optional(),
    catch_up_window_s: options.catch_up_window_s.optional(),
    jitter_s: options.jitter_s.optional(),
    ends_at: options.ends_at.optional(),
    max_cost_usd_per_month: options.max_cost_usd_per_month.optional(),
    failures_max: options.failures_max.optional(),
    expected_revision: z
      .int()
      .min(1)
      .max(INT_MAX)
      .optional()
      .describe('Refuses the change if the schedule has another revision.'),
  })
  .meta({ id: 'ScheduleUpdate', examples: [{ cron: '30 3 * * 1-5', expected_revision: 1 }] });
export type SchedulePatch = z.output<typeof schedulePatch>;

export const ruleInput = z.strictObject({ ...rule, count: z.int().min(1).max(100).default(5) }).meta({
  id: 'SchedulePreviewCreate',
  examples: [{ cron: '0 2 * * *', time_zone: 'Europe/Berlin', count: 2 }],
});

const ticks = z.array(shownTime);

export const previewResponse = z
  .object({
    description: z.string().describe('The rule in words.'),
    next_ticks: ticks,
  })
  .meta({
    id: 'SchedulePreview',
    examples: [
      { description: 'At 02:00 AM', next_ticks: ['2026-12-01T01:00:00.000Z', '2026-12-02T01:00:00.000Z'] },
    ],
  });

export const tickResponse = z
  .object({
    due_at: shownTime,
    is_manual: z.boolean().describe('Made by `run-now`.'),
    outcome: z
      .enum(['started', 'waiting', 'skipped', 'missed', 'refused'])
      .describe(
        '`started`: made its batch. `waiting`: waits for the end of the last batch. `skipped`: made none, see `reason`. ' +
          '`missed`: no worker ran in time. `refused`: the body was refused.',
      ),
    reason: z
      .string()
      .nullable()
      .describe('`overlap`, `no_budget`, `paused`, `outage`, or the code of the refusal; null if started.'),
    message: z.string().nullable(),
    job_id: shownId('job').nullable(),
    created_at: shownTime,
  })
  .meta({ id: 'ScheduleTick', examples: [TICK] });
export type TickResponse = z.output<typeof tickResponse>;

export const scheduleResponse = z
  .object({
    id: shownId('schedule'),
    name: z.string(),
    ...rule,
    description: z.string().describe('The rule in words.'),
    state: z.enum(['active', 'paused', 'ended']),
    state_reason: z.string().nullable().describe('Why it is paused or ended.'),
    next_ticks: ticks.describe('The next five times, without jitter; empty unless active.'),
    last_tick: tickResponse.nullable(),
    body: z.record(z.string(), z.unknown()),
    overlap: options.overlap,
    catch_up_window_s: z.int(),
    jitter_s: z.int(),
    ends_at: shownTime.nullable(),
    max_cost_usd_per_month: usd.nullable(),
    spent_usd_this_month: usd
      .nullable()
      .describe('Cost of the batches of this month, if `max_cost_usd_per_month` is set; null otherwise.'),
    failures_max: z.int().nullable(),
    revision: z.int(),
    created_at: shownTime,
    updated_at: shownTime,
  })
  .meta({ id: 'Schedule', examples: [SCHEDULE] });
export type ScheduleResponse = z.output<typeof scheduleResponse>;
