import type { Batch } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { reviewsQuery, type ToReview } from '../api/reviews.ts';
import { BatchName } from '../parts/batch-name.tsx';
import { ListTable, type Column } from '../parts/list-table.tsx';
import { count } from '../parts/numbers.tsx';
import { Empty } from '../parts/notices.tsx';
import { Page } from '../parts/page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { StateMark } from '../parts/state-mark.tsx';
import { Time } from '../parts/time.tsx';

const COLUMNS: readonly Column<ToReview>[] = [
  {
    head: 'Batch',
    cell: ({ batch }) => (
      <Link to="/review/$batchId" params={{ batchId: batch.id }}>
        <BatchName batch={batch} />
      </Link>
    ),
  },
  { head: 'State', cell: ({ batch }) => <StateMark state={stateOf(batch)} /> },
  { head: 'To review', cell: ({ summary }) => count(summary.states.held), isNumber: true },
  { head: 'Stale', cell: ({ summary }) => count(summary.stale), isNumber: true, isWideOnly: true },
  { head: 'Shrunk', cell: ({ summary }) => count(summary.shrunk), isNumber: true, isWideOnly: true },
  { head: 'Settled', cell: ({ summary }) => count(summary.total - summary.states.held), isNumber: true },
  { head: 'Created', cell: ({ batch }) => <Time at={batch.created_at} />, isWideOnly: true },
];

const stateOf = ({ progress, state }: Batch): string => progress?.phase ?? state;

/** Lists the batches whose changes wait for a review. */
export function Reviews() {
  const reviews = useQuery(reviewsQuery);
  return (
    <Page title="Review">
      <QueryPart of={reviews}>
        {({ toReview, read, isWhole }) => (
          <>
            {toReview.length === 0 ? (
              <Empty command="npx nightshift schedules create samples/nightly.json">
                No change waits for a review.
              </Empty>
            ) : (
              <ListTable label="Reviews" items={toReview} columns={COLUMNS} keyOf={({ batch }) => batch.id} />
            )}
            {!isWhole && (
              <p className="small muted">
                Of the latest {count(read)} batches. Older ones have “Review changes” on their own page.
              </p>
            )}
          </>
        )}
      </QueryPart>
    </Page>
  );
}
