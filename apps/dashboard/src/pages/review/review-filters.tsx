import type { HeldSummary } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import { count } from '../../parts/numbers.tsx';
import { changeFilters, type ReviewFilters } from './filters.ts';
import { heldCountsQuery } from './summaries.ts';
import type { ReviewState } from './use-review.ts';

/** Labels that have a chip. */
const LABELS_MAX = 6;
/** Time without a key after which the search starts. Unit: milliseconds. */
const SEARCH_AFTER = 300;

interface Chip {
  readonly name: string;
  readonly changes: number;
  /** Filters while the chip is pressed. */
  readonly filter: ReviewFilters;
}

function chipsOf({ stale, shrunk, run_states, labels }: HeldSummary): readonly Chip[] {
  const runs = Object.entries(run_states) as [NonNullable<ReviewFilters['run_state']>, number][];
  return [
    { name: 'stale', changes: stale, filter: { stale: true } },
    { name: 'shrunk', changes: shrunk, filter: { shrunk: true } },
    ...runs
      .filter(([run_state]) => run_state !== 'completed')
      .map(([run_state, changes]) => ({ name: `of ${run_state} runs`, changes, filter: { run_state } })),
    ...(labels.length < 2
      ? []
      : labels
          .slice(0, LABELS_MAX)
          .map(({ label, changes }) => ({ name: label, changes, filter: { label } }))),
  ];
}

/** The filters: counts as chips, what is settled, and a search. They stand in the address. */
export function ReviewFilterBar({ review }: { readonly review: ReviewState }) {
  const { batchId, filters, list, summary } = review;
  const navigate = useNavigate();
  // The rows come first: each count reads all changes of the batch.
  const counts = useQuery({ ...heldCountsQuery(batchId), enabled: !list.isPending });
  const set = (search: ReviewFilters): void =>
    void navigate({ to: '/review/$batchId', params: { batchId }, search, replace: true });
  const isOn = ({ filter }: Chip): boolean =>
    Object.entries(filter).every(([name, value]) => filters[name as keyof ReviewFilters] === value);
  const toggle = (chip: Chip): void => {
    const off = Object.fromEntries(Object.keys(chip.filter).map((name) => [name, undefined]));
    set(changeFilters(filters, isOn(chip) ? off : chip.filter));
  };
  const settled = (['accepted', 'rejected'] as const).map((state): Chip => ({
    name: state,
    changes: summary.data?.states[state] ?? 0,
    filter: { state },
  }));
  const chips = [...(counts.data === undefined ? [] : chipsOf(counts.data)), ...settled];
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <div className="review-filters" role="search">
      <strong>{counts.data === undefined ? '…' : `${count(counts.data.total)} to review`}</strong>
      {chips
        .filter((chip) => chip.changes > 0 || isOn(chip))
        .map((chip) => (
          <button
            key={chip.name}
            type="button"
            className="chip"
            aria-pressed={isOn(chip)}
            onClick={() => toggle(chip)}
          >
            {count(chip.changes)} {chip.name}
          </button>
        ))}
      {filters.change_group !== undefined && <span className="muted">equal changes one by one</span>}
      <SearchInput value={filters.q ?? ''} onSearch={(q) => set(changeFilters(filters, { q }))} />
      {isFiltered && (
        <button type="button" className="button" onClick={() => set({})}>
          All changes
        </button>
      )}
    </div>
  );
}

function SearchInput({
  value,
  onSearch,
}: {
  readonly value: string;
  readonly onSearch: (q: string) => void;
}) {
  const timer = useRef<number>(undefined);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  return (
    <input
      className="input"
      type="search"
      aria-label="Search in agents, labels and proposed texts"
      placeholder="Agent, label or text"
      defaultValue={value}
      onChange={({ target }) => {
        window.clearTimeout(timer.current);
        timer.current = window.setTimeout(() => onSearch(target.value), SEARCH_AFTER);
      }}
    />
  );
}
