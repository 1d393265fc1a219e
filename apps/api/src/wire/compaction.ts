import {
  NightshiftError,
  SLIDING_WINDOW_DEFAULT,
  STATIC_BUFFER_DEFAULT,
  type CompactionPolicy,
} from '@nightshift/agent-core';
import type { AgentRow } from '@nightshift/db';
import type { CompactionSettings } from '../schemas/compaction.ts';

/**
 * How a conversation is kept short, as a caller wants it; null when they say nothing of it. `model` is the agent's own: it
 * writes the summaries; the one of `present`, the agent as it is until now, is what settings that are sent back name. What
 * they leave out stays as it is. Throws `validation_failed` for settings that contradict each other, or those that stay.
 */
export function toCompactionPolicy(
  settings: CompactionSettings | null | undefined,
  model: string,
  present: Pick<AgentRow, 'model' | 'compaction'> | null,
): CompactionPolicy | null {
  if (settings == null) return null;
  if (settings.model != null && settings.model !== model && settings.model !== present?.model) {
    throw refuse('model', `must be ${model}, the model of the agent: it writes the summaries`);
  }
  const held: CompactionSettings =
    present === null ? {} : toCompactionSettings(present.compaction, present.model);
  // A share to give way means a window, whatever the agent has: under another mode it would do nothing.
  const mode =
    settings.mode ?? (settings.sliding_window_percentage == null ? held.mode : null) ?? 'sliding_window';
  for (const field of ['message_buffer_limit', 'message_buffer_min'] as const) {
    // Settings that were read are sent back with another mode.
    if (settings[field] != null && settings[field] !== held[field] && mode !== 'static_message_buffer')
      throw refuse(field, `is for static_message_buffer, and the mode is ${mode}`);
  }
  switch (mode) {
    case 'none':
      return { mode: 'none' };
    case 'sliding_window':
      return {
        mode: 'sliding_window',
        evict_ratio:
          settings.sliding_window_percentage ??
          held.sliding_window_percentage ??
          SLIDING_WINDOW_DEFAULT.evict_ratio,
      };
    case 'static_message_buffer': {
      const limit = settings.message_buffer_limit ?? held.message_buffer_limit ?? STATIC_BUFFER_DEFAULT.limit;
      const given = settings.message_buffer_min ?? (isKeptByDefault(held) ? null : held.message_buffer_min);
      const keep = given ?? Math.min(held.message_buffer_min ?? STATIC_BUFFER_DEFAULT.keep, limit - 1);
      if (keep >= limit)
        throw settings.message_buffer_min == null
          ? refuse('message_buffer_limit', `must be more than message_buffer_min, ${keep}`)
          : refuse('message_buffer_min', `must be less than message_buffer_limit, ${limit}`);
      return { mode: 'static_buffer', limit, keep };
    }
  }
}

/** Whether the minimum is what the limit alone leads to, so that nobody need have given it. */
function isKeptByDefault({
  message_buffer_limit: limit,
  message_buffer_min: min,
}: CompactionSettings): boolean {
  return limit != null && min === Math.min(STATIC_BUFFER_DEFAULT.keep, limit - 1);
}

function refuse(field: string, message: string): NightshiftError {
  const path = `/compaction_settings/${field}`;
  return new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
}

/** The policy as it is answered: what holds, defaults filled in. */
export function toCompactionSettings(policy: CompactionPolicy, model: string): CompactionSettings {
  switch (policy.mode) {
    case 'none':
      return { mode: 'none', model };
    case 'sliding_window':
      return { mode: 'sliding_window', model, sliding_window_percentage: policy.evict_ratio };
    case 'static_buffer':
      return {
        mode: 'static_message_buffer',
        model,
        message_buffer_limit: policy.limit,
        message_buffer_min: policy.keep,
      };
  }
}
