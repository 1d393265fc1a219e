import type { Batch } from '@nightshift/client';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { nightshift } from '../api/client.ts';
import { askForNext, itemsOf, nextPage, PAGE_SIZE, readPage, refreshWhileShort } from '../api/pages-of.ts';
import { BatchName } from '../parts/batch-name.tsx';
import { ProgressLine } from '../parts/batch-progress.tsx';
import { ListTable, type Column } from '../parts/list-table.tsx';
import { usd } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { Page } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { Time } from '../parts/time.tsx';
import { BATCH_STATES, type BatchFilters } from './batch-filters.ts';
import { SelectedBatches } from './selected-batches.tsx';

const route = getRouteApi('/batches');

const COLUMNS: readonly Column<Batch>[] = [
  {
    head: 'Batch',
    cell: (batch) => (
      <Link to="/batches/$batchId" params={{ batchId: batch.id }}>
        <BatchName batch={batch} />
      </Link>
    ),
  },
  { head: 'State', cell: ({ state }) => <StateMark state={state} /> },
  { head: 'Runs', cell: (batch) => <ProgressLine batch={batch} /> },
  { head: 'Cost', cell: ({ usage }) => usd(usage.cost_usd), isNumber: true },
  { head: 'Tags', cell: ({ tags }) => <span className="muted">{tags.join(' ')}</span>, isWideOnly: true },
  { head: 'Created', cell: ({ created_at }) => <Time at={created_at} />, isWideOnly: true },
];

/** Lists batches; its filters are the API's, and stand in the address. */
export function Batches() {
  const filters = route.useSearch();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const batches = useInfiniteQuery({
    queryKey: ['batches', filters],
    queryFn: ({ pageParam }) =>
      readPage(
        nightshift.batches.list({
          ...filters,
          limit: PAGE_SIZE,
          ...(pageParam !== undefined && { after: pageParam }),
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: nextPage,
    ...refreshWhileShort(5_000),
    placeholderData: keepPreviousData,
  });
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <Page
      title="Batches"
      actions={
        <Link to="/batches/new" className="button button-main">
          New batch
        </Link>
      }
    >
      <Filters filters={filters} />
      <QueryPart of={batches}>
        {(data) => {
          const items = itemsOf(data);
          if (items.length === 0)
            return isFiltered ? (
              <Empty>No batch fits these filters.</Empty>
            ) : (
              <Empty command="npx nightshift submit tasks.jsonl">There is no batch yet.</Empty>
            );
          return (
            <>
              <SelectedBatches
                selected={items.filter(({ id }) => selected.has(id))}
                listed={items}
                onSelect={(chosen) => setSelected(new Set(chosen.map(({ id }) => id)))}
              />
              <ListTable
                label="Batches"
                items={items}
                columns={[selectColumn(selected, setSelected), ...COLUMNS]}
                keyOf={({ id }) => id}
                onEnd={askForNext(batches)}
              />
            </>
          );
        }}
      </QueryPart>
    </Page>
  );
}

function selectColumn(
  selected: ReadonlySet<string>,
  onChange: (selected: ReadonlySet<string>) => void,
): Column<Batch> {
  return {
    head: 'Select',
    isMark: true,
    cell: ({ id, name }) => (
      <input
        type="checkbox"
        aria-label={`Select ${name ?? id}`}
        checked={selected.has(id)}
        onChange={({ target }) => {
          const others = [...selected].filter((each) => each !== id);
          onChange(new Set(target.checked ? [...others, id] : others));
        }}
      />
    ),
  };
}

function Filters({ filters }: { readonly filters: BatchFilters }) {
  const navigate = route.useNavigate();
  const set = (changes: BatchFilters): void =>
    void navigate({ search: (before) => withoutEmpty({ ...before, ...changes }), replace: true });
  return (
    <div className="filters" role="search">
      <select
        className="input"
        aria-label="State"
        value={filters.state ?? ''}
        onChange={({ target }) => set({ state: BATCH_STATES.find((state) => state === target.value) })}
      >
        <option value="">Any state</option>
        {BATCH_STATES.map((state) => (
          <option key={state}>{state}</option>
        ))}
      </select>
      <input
        className="input"
        aria-label="Name"
        placeholder="Name contains"
        defaultValue={filters.name}
        onChange={({ target }) => set({ name: target.value })}
      />
      <input
        className="input"
        aria-label="Tag"
        placeholder="Tag"
        defaultValue={filters.tag}
        onChange={({ target }) => set({ tag: target.value })}
      />
      {Object.keys(filters).length > 0 && (
        <Link to="/batches" className="button">
          All batches
        </Link>
      )}
    </div>
  );
}

function withoutEmpty(filters: BatchFilters): BatchFilters {
  return Object.fromEntries(
    Object.entries(filters).filter(([, value]) => value !== undefined && value !== ''),
  );
}
