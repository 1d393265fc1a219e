import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import { foldEqual, type Entry } from './entries.ts';
import { listedFilters, type ReviewFilters } from './filters.ts';
import { useHeldList } from './held-list.ts';
import { useSettle } from './settle.ts';
import { summaryQuery } from './summaries.ts';
import { textsQuery } from './texts.ts';
import { useSample } from './use-sample.ts';

/** Changes after the selected one whose texts are read ahead. */
const AHEAD = 3;

/** An edit that is not saved. */
export interface Draft {
  readonly text: string;
  /** The proposed text that the edit began with. */
  readonly from: string;
}

/** Everything that the parts of the page share: the rows, the selected one, and what can be done with it. */
export function useReview(batchId: string, filters: ReviewFilters) {
  const list = useHeldList(batchId, filters);
  // The rows come first: the summary reads all changes of the batch, as the order of risk does.
  const summary = useQuery({ ...summaryQuery(batchId, filters), enabled: !list.isPending });
  const sample = useSample(batchId, filters);
  const settle = useSettle(batchId, filters);
  const groups = filters.change_group === undefined ? summary.data?.groups : undefined;
  const entries = useMemo(
    () => (sample.changes === null ? foldEqual(list.changes, groups ?? []) : foldEqual(sample.changes, [])),
    [sample.changes, list.changes, groups],
  );
  const selection = useSelection(entries);
  useTextsAhead(batchId, entries, selection.index);
  const [drafts, setDrafts] = useState<Readonly<Record<string, Draft>>>({});
  const [isEditing, setEditing] = useState(false);
  const { selected } = selection;
  const { see, drawn } = sample;
  const seenId = drawn === null ? undefined : selected?.change.id;
  useEffect(() => {
    if (seenId !== undefined) see(seenId);
  });
  const decide = (state: 'accepted' | 'rejected', onConflict?: 'rebase' | 'force'): void => {
    if (selected?.change.state !== 'held') return;
    if (state === 'accepted' && selected.change.stale && onConflict === undefined) return;
    void settle.settle(selected, state, onConflict);
    selection.goOn();
  };
  const setDraft = (id: string, draft: Draft | null): void =>
    setDrafts(({ [id]: _old, ...others }) => (draft === null ? others : { ...others, [id]: draft }));
  return {
    ...{ batchId, filters, list, summary, sample, settle, entries, drafts, setDraft },
    ...{ ...selection, decide, isEditing, setEditing },
    isHeldList: listedFilters(filters).state === 'held',
  };
}

export type ReviewState = ReturnType<typeof useReview>;

/** The selected row, and the way back to those settled before. */
function useSelection(entries: readonly Entry[]) {
  const [key, setKey] = useState<string | null>(null);
  const past = useRef<string[]>([]);
  const index = Math.max(
    0,
    entries.findIndex((entry) => entry.key === key),
  );
  const selected = entries[index];
  const goTo = (to: number): void =>
    setKey(entries[Math.max(0, Math.min(to, entries.length - 1))]?.key ?? null);
  return {
    index,
    selected,
    select: setKey,
    move: (by: number) => goTo(index + by),
    /** Selects the next row that is still held, and remembers this one. */
    goOn: (): void => {
      if (selected !== undefined) past.current.push(selected.key);
      const next = entries.findIndex(({ change }, place) => place > index && change.state === 'held');
      goTo(next === -1 ? index : next);
    },
    /** Selects the row settled last. */
    goBack: (): void => {
      const last = past.current.pop();
      if (last !== undefined) setKey(last);
    },
  };
}

/** Reads the texts of the next rows, so that moving on shows them at once. */
function useTextsAhead(batchId: string, entries: readonly Entry[], index: number): void {
  const queries = useQueryClient();
  useEffect(() => {
    for (const { change } of entries.slice(index + 1, index + 1 + AHEAD))
      queries.query(textsQuery(batchId, change)).catch(() => undefined);
  }, [queries, batchId, entries, index]);
}
