import {
  NightshiftError,
  SLIDING_WINDOW_DEFAULT,
  STATIC_BUFFER_DEFAULT,
  type CompactionPolicy,
} from '@nightshift/agent-core';
import type { AgentRow } from '@nightshift/db';
import type { CompactionSettings } from '../schemas/compaction.ts';

/**
 * Returns the requested compaction policy, or null if the caller gives none. `model` is the agent's model, which writes the
 * summaries; settings sent back may name the model of `present`. Absent settings stay as they are.
 * Throws: `validation_failed` for contradictory settings.
 */
export function toCompactionPolicy(
  settings: CompactionSettings | null | undefined,
  model: string,
  present: Pick<AgentRow, 'model' | 'compaction'> | null,
): CompactionPolicy | null {
  if (settings == null) return null;
  if (settings.model != null && settings.model !== model && settings.model !== present?.model) {
    throw refuse('model', `must be ${model}, the agent's model: it writes the summaries`);
  }
  const held: CompactionSettings =
    present === null ? {} : toCompactionSettings(present.compaction, present.model);
  // A percentage selects the sliding window, because other modes ignore it.
  const mode =
    settings.mode ?? (settings.sliding_window_percentage == null ? held.mode : null) ?? 'sliding_window';
  for (const field of ['message_buffer_limit', 'message_buffer_min'] as const) {
    // Clients send back settings that they read, with another mode.
    if (settings[field] != null && settings[field] !== held[field] && mode !== 'static_message_buffer')
      throw refuse(field, `is only for static_message_buffer; the mode is ${mode}`);
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

/** Tells whether the minimum follows from the limit alone, so the caller need not have given it. */
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

/** Returns the policy for an answer, with defaults. */
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
