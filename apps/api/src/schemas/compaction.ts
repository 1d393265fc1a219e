import { z } from 'zod';

/** Compaction of an agent's conversation, with Letta's names. Unsupported settings of Letta are refused. */
export const compactionSettings = z
  .strictObject({
    mode: z
      .enum(['sliding_window', 'static_message_buffer', 'none'])
      .nullish()
      .describe(
        'sliding_window (default of a new agent): when nine tenths of the window are full, a summary replaces the oldest ' +
          'part. static_message_buffer: a summary does so above message_buffer_limit messages. none: never; a run that ' +
          'outgrows the window ends. An update changes only the named settings.',
      ),
    sliding_window_percentage: z
      .number()
      .gt(0)
      .lt(1)
      .nullish()
      .describe(
        'Share of the messages to replace, for sliding_window; selects sliding_window if no mode is given; default 0.3.',
      ),
    message_buffer_limit: z
      .int()
      .min(2)
      .max(10_000)
      .nullish()
      .describe('Most messages to keep, for static_message_buffer only; default 10. Beyond Letta.'),
    message_buffer_min: z
      .int()
      .min(1)
      .max(10_000)
      .nullish()
      .describe('Messages that stay after compaction, for static_message_buffer; default 4. Beyond Letta.'),
    model: z.string().nullish().describe("Must be the agent's own model, which writes the summaries."),
  })
  .meta({ id: 'CompactionSettingsUpdate' });

/** Settings in answers. */
export const compactionResponse = z.object(compactionSettings.shape).meta({ id: 'CompactionSettings' });
export type CompactionSettings = z.output<typeof compactionSettings>;
