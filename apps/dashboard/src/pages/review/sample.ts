import { nightshift } from '../../api/client.ts';
import { withoutTexts, type Change } from './change.ts';
import { listedFilters, type ReviewFilters } from './filters.ts';

/** Sizes of a sample. */
export const SAMPLE_SIZES = [10, 20, 50] as const;

/** Most changes that a sample is drawn from. */
const DRAWN_MAX = 20_000;
const PAGE_SIZE = 200;

/** Changes drawn at random; each of those read was as likely as any other. */
export interface Sample {
  readonly changes: readonly Change[];
  /** Held changes that it was drawn from. */
  readonly from: number;
  /** Whether these are all that match. */
  readonly isWhole: boolean;
}

/**
 * Draws a sample of the held changes that match: reads them once, and keeps each with equal probability.
 * Tells how many it has read.
 */
export async function drawSample(
  batchId: string,
  { filters, size, onRead }: { filters: ReviewFilters; size: number; onRead: (read: number) => void },
): Promise<Sample> {
  const drawn: Change[] = [];
  let from = 0;
  const all = nightshift.batches.heldChanges(batchId, {
    ...listedFilters(filters),
    state: 'held',
    limit: PAGE_SIZE,
  });
  for await (const change of all) {
    const place = from < size ? from : randomBelow(from + 1);
    if (place < size) drawn[place] = withoutTexts(change);
    from++;
    if (from % PAGE_SIZE === 0) onRead(from);
    if (from === DRAWN_MAX) return { changes: drawn, from, isWhole: false };
  }
  return { changes: drawn, from, isWhole: true };
}

/** Returns a whole number from 0 to below `end`. */
function randomBelow(end: number): number {
  return Math.floor(Math.random() * end);
}
