import { createHash } from 'node:crypto';
import { progressOf, toEventId, toWireId } from '@nightshift/agent-core';
import type { BatchProgress, EventRow } from '@nightshift/db';
import type { EventResponse, ProgressResponse } from '../schemas/progress.ts';

/** Converts the stored progress of a batch to an answer. */
export function toProgressResponse({ facts, version }: BatchProgress): ProgressResponse {
  const progress = progressOf(facts);
  const { waiting_reason, eta } = progress;
  return {
    ...progress,
    waiting_reason:
      waiting_reason === null
        ? null
        : { ...waiting_reason, until: waiting_reason.until?.toISOString() ?? null },
    oldest_step_sent_at: progress.oldest_step_sent_at?.toISOString() ?? null,
    next_look_at: progress.next_look_at?.toISOString() ?? null,
    eta: eta === null ? null : { earliest: eta.earliest.toISOString(), latest: eta.latest.toISOString() },
    version,
  };
}

/**
 * Returns the version of an answer: the batch's version and a hash of the answer, since looks at the provider and pauses of a
 * credential change it without a commit to the batch.
 */
export function versionTag(version: number, answer: object): string {
  return `${version}-${createHash('sha256').update(JSON.stringify(answer)).digest('base64url').slice(0, 11)}`;
}

/** Converts a stored event to an answer. */
export function toEventResponse(event: EventRow): EventResponse {
  const { type, created_at, batch_id, schedule_id, data } = event;
  return {
    id: toEventId(event),
    type,
    created_at: created_at.toISOString(),
    job_id: batch_id === null ? null : toWireId('job', batch_id),
    schedule_id: schedule_id === null ? null : toWireId('schedule', schedule_id),
    data,
  };
}
