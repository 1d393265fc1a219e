import type { Batch, HeldSummary } from '@nightshift/client';
import { queryOptions } from '@tanstack/react-query';
import { nightshift } from './client.ts';

/** How many batches are looked at, and how many reviews are counted: each count reads all changes of its batch. */
const LISTED = { batches: 200, reviews: 20 };
const LATEST = { batches: 50, reviews: 3 };

/** A batch with held changes. */
export interface ToReview {
  readonly batch: Batch;
  readonly summary: HeldSummary;
}

/** What waits for a review. */
export interface Reviews {
  readonly toReview: readonly ToReview[];
  /** Batches that were looked at, and whether there are no others. */
  readonly read: number;
  readonly isWhole: boolean;
}

async function readReviews(most: typeof LISTED): Promise<Reviews> {
  const batches: Batch[] = [];
  let read = 0;
  for await (const batch of nightshift.batches.list({ limit: most.batches })) {
    read++;
    if (batch.apply === 'review') batches.push(batch);
    if (read === most.batches || batches.length === most.reviews) break;
  }
  const counted = await Promise.all(
    batches.map(async (batch): Promise<ToReview> => {
      const summary = await nightshift.batches.heldSummary(batch.id, { groups: 0 });
      return { batch, summary };
    }),
  );
  const toReview = counted.filter(({ summary }) => summary.states.held > 0);
  return { toReview, read, isWhole: read < most.batches && batches.length < most.reviews };
}

/** Counts what the latest batches hold. */
export const reviewsQuery = queryOptions({
  queryKey: ['review', 'batches', 'listed'],
  queryFn: () => readReviews(LISTED),
  refetchInterval: 60_000,
});

/** The same of a few batches, for a count beside a link. */
export const latestReviewsQuery = queryOptions({
  queryKey: ['review', 'batches', 'latest'],
  queryFn: () => readReviews(LATEST),
  staleTime: 30_000,
  refetchInterval: 60_000,
});
