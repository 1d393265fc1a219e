import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useEffect, useRef } from 'react';
import { count } from '../../parts/numbers.tsx';
import { markOf, riskOf } from './change.ts';
import type { Entry } from './entries.ts';
import type { ReviewState } from './use-review.ts';

/** Height of a row. Unit: pixels. */
const ROW_HEIGHT = 52;
const OVERSCAN = 10;
/** Rows from the end at which the next page is read. */
const NEAR_END = 60;

/** Lists the changes, riskiest first; only the rows in sight exist. */
export function ChangeList({ review }: { readonly review: ReviewState }) {
  const { entries, index, select, list, sample, settle, drafts } = review;
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
  });
  const shown = rows.getVirtualItems();
  const { hasNextPage, isFetching, fetchNextPage } = list;
  const isNearEnd = (shown.at(-1)?.index ?? 0) >= entries.length - NEAR_END;
  const wantsMore = sample.changes === null && isNearEnd && hasNextPage && !isFetching && list.error === null;
  useEffect(() => {
    if (wantsMore) void fetchNextPage();
  }, [wantsMore, fetchNextPage]);
  useEffect(() => {
    rows.scrollToIndex(index);
  }, [rows, index]);
  return (
    <div className="review-list" ref={box} tabIndex={-1}>
      <ul aria-label="Changes, riskiest first" style={{ height: rows.getTotalSize() }}>
        {shown.map(({ index: place, start }) => {
          const entry = entries[place];
          return entry === undefined ? null : (
            <li
              key={entry.key}
              aria-setsize={entries.length}
              aria-posinset={place + 1}
              style={{ height: ROW_HEIGHT, transform: `translateY(${start}px)` }}
            >
              <Row
                entry={entry}
                isSelected={place === index}
                note={noteOf(entry, settle.reverted.has(entry.key), entry.key in drafts)}
                onSelect={select}
              />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function noteOf({ change, count: equal }: Entry, isReverted: boolean, isDraft: boolean): string {
  if (isReverted) return 'accepted, then reverted';
  if (isDraft) return 'edited, not saved';
  if (change.state !== 'held') return change.state;
  return equal > 1 ? `${count(equal)} equal changes · ${riskOf(change)}` : riskOf(change);
}

interface RowProps {
  readonly entry: Entry;
  readonly isSelected: boolean;
  readonly note: string;
  readonly onSelect: (key: string) => void;
}

const Row = memo(function Row({ entry, isSelected, note, onSelect }: RowProps) {
  const { key, change, count: equal } = entry;
  const [mark, tone] = markOf(change);
  return (
    <button
      type="button"
      className="review-row"
      aria-current={isSelected ? 'true' : undefined}
      onClick={() => onSelect(key)}
    >
      <span className={`review-mark tone-${tone}`} aria-hidden>
        {equal > 1 && change.state === 'held' ? '⌄' : mark}
      </span>
      <span className="review-name cut">
        {equal > 1 ? `${change.agent_name} and others` : change.agent_name}
      </span>
      <span className="review-label small muted cut">{change.label}</span>
      <span className={`review-risk small cut ${change.state === 'held' ? `tone-${tone}` : 'muted'}`}>
        {note}
      </span>
    </button>
  );
});
