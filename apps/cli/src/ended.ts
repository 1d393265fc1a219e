import type { Batch } from '@nightshift/client';

/** Runs of a batch that have ended, in any way. */
export function endedOf({ counts }: Batch): number {
  return counts.completed + counts.failed + counts.cancelled + counts.expired;
}

/** Runs of a batch that a retry takes. */
export function failedOf({ counts }: Batch): number {
  return counts.failed + counts.expired;
}

/** Runs of a batch that have not ended. */
export function openOf(batch: Batch): number {
  return batch.counts.total - endedOf(batch);
}
