import type { HeldChange } from '@nightshift/client';
import { useInfiniteQuery, type InfiniteData, type QueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { nightshift } from '../../api/client.ts';
import { withoutTexts, type Change } from './change.ts';
import { listedFilters, type ReviewFilters } from './filters.ts';

/** The API's largest page. */
const PAGE_SIZE = 200;

type HeldChanges = AsyncGenerator<HeldChange, void, undefined>;

/** A list that is read on from its place: the cursors of the order of risk stay inside the client. */
interface Source {
  items: HeldChanges;
  /** The last change that a page holds. */
  last: string | undefined;
}

/** A page of the list. */
export interface HeldPage {
  readonly changes: readonly Change[];
  /** The source of the next page; undefined on the last. */
  readonly rest: Source | undefined;
}

const keyOf = (batchId: string) => ['review', batchId, 'list'];

/** The key of the rows of a sample. */
export const sampleKey = (batchId: string) => [...keyOf(batchId), 'sample'];

function openList(batchId: string, filters: ReviewFilters, after?: string): HeldChanges {
  return nightshift.batches.heldChanges(batchId, {
    ...listedFilters(filters),
    ...{ sort: 'risk', limit: PAGE_SIZE, after },
  });
}

async function readOn(source: Source, reopen: (after?: string) => HeldChanges): Promise<HeldPage> {
  const changes: Change[] = [];
  try {
    while (changes.length < PAGE_SIZE) {
      const { value, done } = await source.items.next();
      if (done === true) return { changes, rest: undefined };
      changes.push(withoutTexts(value));
    }
  } catch (error) {
    // A generator that threw has ended: the next try starts behind the last page.
    source.items = reopen(source.last);
    throw error;
  }
  source.last = changes.at(-1)?.id;
  return { changes, rest: source };
}

/** Reads the held changes, riskiest first, page by page. */
export function useHeldList(batchId: string, filters: ReviewFilters) {
  const query = useInfiniteQuery({
    queryKey: [...keyOf(batchId), filters],
    queryFn: ({ pageParam }) => {
      const reopen = (after?: string) => openList(batchId, filters, after);
      return readOn(pageParam ?? { items: reopen(), last: undefined }, reopen);
    },
    initialPageParam: undefined as Source | undefined,
    getNextPageParam: ({ rest }) => rest,
    // A list under a reader's eyes keeps its order; what is settled is changed in place.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnReconnect: false,
    gcTime: 0,
  });
  const changes = useMemo(() => query.data?.pages.flatMap((page) => page.changes) ?? [], [query.data]);
  return { ...query, changes };
}

/** Changes rows of the lists of a batch in place. */
export function patchList(queries: QueryClient, batchId: string, patch: (change: Change) => Change): void {
  queries.setQueriesData<InfiniteData<HeldPage>>({ queryKey: keyOf(batchId) }, (data) =>
    data === undefined
      ? data
      : { ...data, pages: data.pages.map((page) => ({ ...page, changes: page.changes.map(patch) })) },
  );
}

/** Reads the lists of a batch anew, after many changes were settled. */
export async function reloadList(queries: QueryClient, batchId: string): Promise<void> {
  await queries.resetQueries({ queryKey: keyOf(batchId) });
}
