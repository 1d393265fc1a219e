import { EVENT_TYPES, PHASES, WAITING_CAUSES } from '@nightshift/agent-core';
import { z } from 'zod';
import { shownId } from './ids.ts';
import { shownTime } from './moment.ts';
import { usd } from './usage.ts';
import { PROGRESS, TIMELINE } from './examples/batches.ts';
import { BATCH_ID } from './examples/ids.ts';

const waitingReason = z
  .object({
    cause: z
      .enum(WAITING_CAUSES)
      .describe(
        '`paused`: by a person or a pilot. `cap`: at its cap. `credential`: the provider takes no requests. ' +
          '`retrying`: the steps of all open runs have failed, and are tried again later. ' +
          '`behind_another_batch`: its runs wait for conversations. `no_worker`: no worker takes due work.',
      ),
    message: z.string(),
    until: shownTime.nullable().describe('Null if the end of the wait is not known.'),
  })
  .meta({ id: 'WaitingReason' });

/** The progress of a batch. */
export const progressResponse = z
  .object({
    phase: z
      .enum(PHASES)
      .describe(
        '`done` only when all runs have ended, held changes are sorted out, and all results can be read.',
      ),
    waiting_reason: waitingReason.nullable().describe('Null while the batch goes on.'),
    ended: z.int().describe('Runs that have ended, in any way.'),
    total: z.int(),
    percent: z.int().describe('Rounded down; 100 only when the phase is `done`.'),
    runs_per_second: z
      .number()
      .nullable()
      .describe('Ends in the ten minutes before the last end; null without an end in the last ten minutes.'),
    calls: z
      .object({
        done: z.int().describe('Succeeded.'),
        failed: z.int().describe('Ended in an error, or were refused.'),
        unknown: z.int().describe('Were interrupted, and may have taken effect.'),
        open: z.int().describe('Wait or are under way.'),
      })
      .describe('Tool calls of the answers so far, counted as they end.')
      .meta({ id: 'CallCounts' }),
    steps_at_provider: z
      .int()
      .describe('Steps in provider batches that the provider has not reported as ended.'),
    oldest_step_sent_at: shownTime.nullable().describe('Null if no step is at the provider.'),
    next_look_at: shownTime.nullable().describe('When a worker asks the provider again.'),
    eta: z
      .object({ earliest: shownTime, latest: shownTime })
      .meta({ id: 'Eta' })
      .nullable()
      .describe(
        'Null before five runs have ended, while the batch waits, and when its rates no longer hold.',
      ),
    version: z
      .int()
      .describe(
        'Rises with each commit that changes the counts of the batch or its state; the first part of the ETag.',
      ),
  })
  .meta({ id: 'BatchProgress', examples: [PROGRESS] });
export type ProgressResponse = z.output<typeof progressResponse>;

/** The chart of a batch. */
export const timelineResponse = z
  .object({
    bucket: z.enum(['1m', '5m', '15m', '1h']),
    buckets: z
      .array(
        z
          .object({
            from: shownTime,
            ended: z.int().describe('Runs that ended, in any way.'),
            failed: z.int().describe('Of them: failed, expired and cancelled runs.'),
            input_tokens: z.int(),
            output_tokens: z.int(),
            cost_usd: usd.nullable(),
          })
          .meta({ id: 'TimelineBucket' }),
      )
      .describe('The oldest first; buckets without a change are left out.'),
  })
  .meta({ id: 'Timeline', examples: [TIMELINE] });

/** The id of a rare change. Its pattern is documented and not checked. */
export const shownEventId = z.string().meta({ pattern: '^event-[0-9]{1,18}-[0-9]{1,15}$' });

/** A rare change. */
export const eventResponse = z
  .object({
    id: shownEventId.describe('Place of the event: continue after it by `Last-Event-ID` or `after`.'),
    type: z.enum(EVENT_TYPES),
    created_at: shownTime,
    job_id: shownId('job').nullable(),
    schedule_id: shownId('schedule').nullable().describe('Of `schedule.tick` events.'),
    data: z
      .record(z.string(), z.unknown())
      .describe(
        '`reason` of a state, `runs` that wait for the caller, or `due_at`, `outcome` and `reason` of a tick.',
      ),
  })
  .meta({
    id: 'Event',
    examples: [
      {
        id: 'event-8411-17',
        type: 'batch.completed',
        created_at: '2026-11-30T02:31:07.442Z',
        job_id: BATCH_ID,
        schedule_id: null,
        data: {},
      },
    ],
  });
export type EventResponse = z.output<typeof eventResponse>;
