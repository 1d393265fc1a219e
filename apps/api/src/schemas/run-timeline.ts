import { INTERVAL_KINDS } from '@nightshift/agent-core';
import { z } from 'zod';
import { STEP_ID } from './examples/ids.ts';
import { shownId } from './ids.ts';
import { shownTime } from './moment.ts';

const interval = z
  .object({
    kind: z
      .enum(INTERVAL_KINDS)
      .meta({ id: 'IntervalKind' })
      .describe(
        '`queued`: its conversation or the batch is busy. `gathering`: until its request is sent. `at_provider`: until the ' +
          'answers of its provider batch are there. `ingest`: until its answer is stored. `tools`: until its calls have ' +
          'ended. `waiting_for_caller`: until the caller has answered. `retry`: until the next attempt.',
      ),
    from: shownTime,
    to: shownTime.nullable().describe('Null while it lasts.'),
    step_id: shownId('step')
      .nullable()
      .describe(
        'The attempt of a step; null while queued, and before the attempt has its place in a request.',
      ),
  })
  .meta({ id: 'RunInterval' });

/** The timeline of a run on the wire. */
export const runTimeline = z
  .object({
    intervals: z
      .array(interval)
      .describe(
        'By their start. Intervals of one kind do not overlap; times that are not stored are left out.',
      ),
    is_cut: z.boolean().describe('True if only the latest 1,000 attempts of steps are shown.'),
  })
  .meta({
    id: 'RunTimeline',
    examples: [
      {
        intervals: [
          { kind: 'queued', from: '2026-11-30T02:00:00.000Z', to: '2026-11-30T02:00:04.000Z', step_id: null },
          {
            kind: 'gathering',
            from: '2026-11-30T02:00:04.000Z',
            to: '2026-11-30T02:00:20.000Z',
            step_id: STEP_ID,
          },
          { kind: 'at_provider', from: '2026-11-30T02:00:20.000Z', to: null, step_id: STEP_ID },
        ],
        is_cut: false,
      },
    ],
  });
