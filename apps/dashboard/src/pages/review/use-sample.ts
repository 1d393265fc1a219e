import { skipToken, useMutation, useQuery, useQueryClient, type InfiniteData } from '@tanstack/react-query';
import { useState } from 'react';
import type { Change } from './change.ts';
import type { ReviewFilters } from './filters.ts';
import { sampleKey, type HeldPage } from './held-list.ts';
import { drawSample } from './sample.ts';

/** A random sample that is walked through before the others are accepted. */
export function useSample(batchId: string, filters: ReviewFilters) {
  const queries = useQueryClient();
  const queryKey = sampleKey(batchId);
  const [read, setRead] = useState(0);
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  // The rows stand beside those of the list, so that a settled change is changed in both.
  const rows = useQuery<InfiniteData<HeldPage>>({ queryKey, queryFn: skipToken });
  const draw = useMutation({
    mutationFn: (size: number) => drawSample(batchId, { filters, size, onRead: setRead }),
    onMutate: () => setRead(0),
    onSuccess: ({ changes }) => {
      setSeen(new Set());
      queries.setQueryData(queryKey, { pages: [{ changes, rest: undefined }], pageParams: [undefined] });
    },
  });
  const end = (): void => {
    draw.reset();
    queries.removeQueries({ queryKey });
  };
  const see = (id: string): void => {
    if (!seen.has(id)) setSeen(new Set([...seen, id]));
  };
  const changes: readonly Change[] | null =
    draw.data === undefined ? null : (rows.data?.pages.flatMap((page) => page.changes) ?? null);
  return { draw, read, drawn: draw.data ?? null, changes, seen, see, end };
}

export type UsedSample = ReturnType<typeof useSample>;
