import { z } from 'zod';

/** How the conversation of an agent is kept within its window. Letta's names; its settings without a meaning here are refused. */
export const compactionSettings = z
  .strictObject({
    mode: z
      .enum(['sliding_window', 'static_message_buffer', 'none'])
      .nullish()
      .describe(
        'sliding_window (default of a new agent): when nine tenths of the window are full, the oldest part gives way to a ' +
          'summary. static_message_buffer: as soon as there are more messages than message_buffer_limit. none: never; a ' +
          'run that outgrows the window ends. An update changes the settings that it names.',
      ),
    sliding_window_percentage: z
      .number()
      .gt(0)
      .lt(1)
      .nullish()
      .describe(
        'Part of the messages that gives way, of sliding_window, for which it asks where no mode is named; default 0.3.',
      ),
    message_buffer_limit: z
      .int()
      .min(2)
      .max(10_000)
      .nullish()
      .describe(
        'Messages that are kept, of static_message_buffer and no other mode; default 10. Beyond Letta.',
      ),
    message_buffer_min: z
      .int()
      .min(1)
      .max(10_000)
      .nullish()
      .describe('Messages that stay when there are more, of static_message_buffer; default 4. Beyond Letta.'),
    model: z.string().nullish().describe("The agent's own model writes the summaries; no other is taken."),
  })
  .meta({ id: 'CompactionSettingsUpdate' });

/** Settings as they are answered. */
export const compactionResponse = z.object(compactionSettings.shape).meta({ id: 'CompactionSettings' });
export type CompactionSettings = z.output<typeof compactionSettings>;
