import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { nightshift } from '../../api/client.ts';
import type { ReviewFilters } from './filters.ts';

/** Most groups that the API counts. */
const GROUPS_MAX = 100;

/** Counts of what is held, whatever the filters. */
export const heldCountsQuery = (batchId: string) =>
  queryOptions({
    queryKey: ['review', batchId, 'summary', 'held'],
    queryFn: () => nightshift.batches.heldSummary(batchId, { state: 'held', groups: 0 }),
    placeholderData: keepPreviousData,
  });

/** Counts and equal changes within the filters, settled ones included. */
export const summaryQuery = (batchId: string, { state: _state, ...filters }: ReviewFilters) =>
  queryOptions({
    queryKey: ['review', batchId, 'summary', filters],
    queryFn: () => nightshift.batches.heldSummary(batchId, { ...filters, groups: GROUPS_MAX }),
    placeholderData: keepPreviousData,
  });
