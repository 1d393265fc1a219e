import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useEffect } from 'react';
import { useBatchName } from '../api/batch-names.ts';
import { nightshift } from '../api/client.ts';
import { Empty, ErrorNotice, Loading } from '../parts/notices.tsx';
import { ChangeFacts } from './review/change-facts.tsx';
import { ChangeList } from './review/change-list.tsx';
import { ChangeView } from './review/change-view.tsx';
import { ReviewFilterBar } from './review/review-filters.tsx';
import { useReviewKeys } from './review/review-keys.ts';
import { SampleBar } from './review/sample-bar.tsx';
import { useReview, type ReviewState } from './review/use-review.ts';
import '../style/review.css';

const route = getRouteApi('/review/$batchId');

/** Reviews what a batch changed in the memories: the list, the change, its facts. */
export function Review() {
  const { batchId } = route.useParams();
  const review = useReview(batchId, route.useSearch());
  useReviewKeys(review);
  return (
    <main className="review" id="content" tabIndex={-1}>
      <Head batchId={batchId} />
      <ReviewFilterBar review={review} />
      <SampleBar review={review} />
      <Troubles review={review} />
      <Body review={review} />
    </main>
  );
}

function Head({ batchId }: { readonly batchId: string }) {
  const batch = useQuery({
    queryKey: ['batch', batchId],
    queryFn: () => nightshift.batches.retrieve(batchId),
  });
  const name = useBatchName(batch.data) || batchId;
  useEffect(() => {
    document.title = `Review of ${name} · Nightshift`;
  }, [name]);
  return (
    <header className="review-head">
      <h1>
        Review{' '}
        <Link to="/batches/$batchId" params={{ batchId }}>
          {name}
        </Link>
      </h1>
      <p className="review-keys small muted" aria-hidden>
        <kbd>j</kbd> <kbd>k</kbd> move <kbd>a</kbd> accept <kbd>r</kbd> reject <kbd>e</kbd> edit <kbd>u</kbd>{' '}
        back
      </p>
    </header>
  );
}

/** What went wrong with single changes; each names its change and leads to it. */
function Troubles({ review }: { readonly review: ReviewState }) {
  const { settle, select } = review;
  return settle.troubles.map(({ change, message }) => (
    <div key={change.id} className="notice notice-bad row" role="alert">
      <span>
        <strong>
          {change.agent_name}, {change.label}:
        </strong>{' '}
        {message}
      </span>
      <button type="button" className="button" onClick={() => select(change.id)}>
        Show it
      </button>
      <button type="button" className="button" onClick={() => settle.forget(change)}>
        Close
      </button>
    </div>
  ));
}

function Body({ review }: { readonly review: ReviewState }) {
  const { list, selected, batchId, filters, sample } = review;
  const { error, isPending, refetch, fetchNextPage } = list;
  const again = (): void => void (list.data === undefined ? refetch() : fetchNextPage());
  if (selected !== undefined)
    return (
      <>
        {error !== null && <ErrorNotice error={error} onRetry={again} />}
        <div className="review-body">
          <ChangeList review={review} />
          <ChangeView review={review} entry={selected} />
          <ChangeFacts change={selected.change} />
        </div>
      </>
    );
  if (error !== null) return <ErrorNotice error={error} onRetry={again} />;
  if (isPending && sample.changes === null) return <Loading />;
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <Empty>
      {isFiltered ? 'No change fits these filters. ' : 'Nothing is left to review here. '}
      <Link to="/batches/$batchId" params={{ batchId }}>
        Open the batch
      </Link>
    </Empty>
  );
}
