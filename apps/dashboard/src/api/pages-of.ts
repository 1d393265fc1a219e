import type { InfiniteData, UseInfiniteQueryResult } from '@tanstack/react-query';

/** Items of a page of a list. */
export const PAGE_SIZE = 50;

/** Reads one page of a list. */
export async function readPage<Item>(items: AsyncIterable<Item>): Promise<readonly Item[]> {
  const page: Item[] = [];
  for await (const item of items) if (page.push(item) === PAGE_SIZE) break;
  return page;
}

/** Returns the cursor of the next page; undefined on the last. */
export function nextPage<Item extends { readonly id: string }>(page: readonly Item[]): string | undefined {
  return page.length === PAGE_SIZE ? page.at(-1)?.id : undefined;
}

/** Returns the items of all pages read so far. */
export function itemsOf<Item>(data: InfiniteData<readonly Item[]>): readonly Item[] {
  return data.pages.flat();
}

/** Asks for the next page; undefined on the last page, after an error, and while a page is read: to ask again would cancel it. */
export function askForNext({
  hasNextPage,
  isFetching,
  error,
  fetchNextPage,
}: Pick<UseInfiniteQueryResult, 'hasNextPage' | 'isFetching' | 'error' | 'fetchNextPage'>):
  (() => void) | undefined {
  return hasNextPage && !isFetching && error === null ? () => void fetchNextPage() : undefined;
}

/** Most pages of a list that is read again by itself: each page is a request. */
const REFRESHED_MAX = 4;

interface ListQuery {
  readonly state: { readonly data: { readonly pages: readonly unknown[] } | undefined };
}

/** Options of a list that is read again by itself while it is short. False: never by time. Unit: milliseconds. */
export function refreshWhileShort(every: number | false) {
  const isShort = ({ state }: ListQuery): boolean => (state.data?.pages.length ?? 0) <= REFRESHED_MAX;
  return {
    refetchInterval: (query: ListQuery) => isShort(query) && every,
    refetchOnWindowFocus: isShort,
  };
}
